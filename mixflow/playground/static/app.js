// The page: state -> request -> frames -> views, and one clock for all of them. This file only connects the others.

import { CHARTS, draw, missing } from "./charts.js";
import { Clock } from "./clock.js";
import { buildReadout, moveCursor } from "./cursor.js";
import { buildForm } from "./form.js";
import { Link } from "./link.js";
import { say } from "./messages.js";
import { Painter } from "./painter.js";
import { showMoves, wirePlayer } from "./player.js";
import { Runs } from "./runs.js";
import { Samples } from "./samples.js";
import { Squares } from "./squares.js";
import { State } from "./state.js";
import { addTools, offerDownloads, wireSharing } from "./takeaway.js";
import { Theme } from "./theme.js";
import { TIMED, buildCards } from "./views.js";
import { wireChart } from "./zoom.js";

const $ = (id) => document.getElementById(id);
const QUIET = 40; // ms without movement before a dragged slider asks for its run
const EVERYTHING = 5; // every so many frames of a growing run all views are drawn

const config = await (await fetch("/config.json")).json();
const state = new State(config);
say(state.read(location.search).join(" "));
const cards = buildCards($("views"));
const clock = new Clock(state);
const theme = new Theme(state);
const squares = new Squares(cards, config.colours);
const samples = new Samples(cards.attention, state);
const painter = new Painter(cards, paintView, settle);
const runs = new Runs(state, new Link());

// asking: a moved control waits for a quiet moment, a released one does not
let timer = null;
const moved = () => { clearTimeout(timer); say(""); timer = setTimeout(() => runs.ask(), QUIET); };
const released = () => { clearTimeout(timer); say(""); runs.ask(); };

runs.addEventListener("show", ({ detail: { slot, run } }) => {
  if (slot === "other") {
    painter.redraw("loss");
    return;
  }
  clock.run = run;
  if (run.still) clock.pause();
  showMoves(run);
  samples.fill(run);
  // Drawing takes the engine's processor time, and most runs are over before a second frame of them comes: of a run that
  // grows one curve is drawn at first, then the three that tell most, and about once a second everything.
  if (run.done || run.frames % EVERYTHING === 0) painter.redrawAll();
  else painter.redraw(...(run.frames > 1 ? ["loss", "neurons", "scores"] : ["loss"]));
});

runs.addEventListener("finished", ({ detail: { run } }) => {
  offerDownloads(run);
  if (!run.names.listed) return;
  runs.askView("geometry");
  askSample();
});

runs.addEventListener("view", ({ detail: { name } }) => painter.redraw(name === "sample" ? "attention" : name));

function askSample() {
  const run = runs.main;
  if (!run?.done || !run.names.listed) return;
  const atom = samples.chosen(run);
  if (run.views.sample?.header.atom !== atom) runs.askView("sample", { atom });
}

// drawing
function paintView(id) {
  const run = runs.main;
  if (!run?.length) return;
  const { body, note } = cards[id];
  const why = missing(id, run);
  note.textContent = why;
  note.hidden = !why;
  body.hidden = Boolean(why);
  if (why) return;
  if (id in CHARTS) {
    draw(body, id, page());
    if (!body.dataset.wired) wire(body, id);
  } else {
    squares[id](run, clock.index, theme.dark);
  }
  if (id === "loss") {
    performance.mark(run.done ? "mixflow:drawn-finished" : "mixflow:drawn");
    document.documentElement.dataset.drawn = run.done ? run.key : "partial";
  }
}

// What a chart needs to know of the page.
function page() {
  return {
    run: runs.main, other: runs.shown.other, otherName: config.methods[state.get("compare")], state, index: clock.index,
    colours: { lines: config.colours, stages: config.stages }, dark: theme.dark, ...theme.tones(),
  };
}

function wire(body, id) {
  body.dataset.wired = "yes";
  wireChart(body, id, state);
  if (!TIMED.includes(id)) return;
  body.on("plotly_click", ({ points }) => {
    if (runs.main.still) return;
    clock.pause();
    clock.moveTo(Number(points[0].x));
  });
  body.on("plotly_afterplot", settle);
}

function settle() {
  if (runs.main?.length) moveCursor(runs.main, clock, cards);
}

state.addEventListener("change", ({ detail }) => {
  if (detail.has("t")) {
    painter.redraw("geometry", "matrix", "attention");
    settle();
  }
  if (detail.has("head")) painter.redraw("neurons");
  if (detail.has("axis") || detail.has("zoom")) painter.redraw(...TIMED);
  if (detail.has("off")) painter.redraw(...Object.keys(CHARTS));
  if (detail.has("sample")) askSample();
  if (detail.has("theme")) theme.apply();
});
theme.addEventListener("change", () => painter.redrawAll());
new ResizeObserver(settle).observe($("views"));

addTools(cards);
buildReadout();
wirePlayer(state, clock);
buildForm($("controls"), state, config.presets, { moved, released });
wireSharing(state, clock);
theme.apply();
