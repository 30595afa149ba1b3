// The page: state -> request -> frames -> views, and one clock for all of them. This file only connects the others.

import { Chart } from "./chart.js";
import { CHARTS, TIMED, missing } from "./charts.js";
import { Clock } from "./clock.js";
import { $ } from "./draw.js";
import { buildForm } from "./form.js";
import { Given } from "./given.js";
import { Link } from "./link.js";
import { Local } from "./local.js";
import { Maps } from "./maps.js";
import { say } from "./messages.js";
import { Network } from "./network.js";
import { Painter } from "./painter.js";
import { showMoves, showTime, wirePlayer } from "./player.js";
import { Runs } from "./runs.js";
import { Samples } from "./samples.js";
import { State } from "./state.js";
import { Story } from "./story.js";
import { addTools, wireTakeaway } from "./takeaway.js";
import { followTheme } from "./theme.js";
import { buildCards } from "./views.js";

const QUIET = 40; // ms without movement before a dragged slider asks for its run
const AT_CURSOR = ["network", "samples", "matrix", "attention", "geometry"]; // views of one time

// config: {controls, methods, presets, served}; of a page with a run in it also {figure, state}
export function open(config) {
  const state = new State(config);
  const fresh = location.hash.length < 2;
  const given = $("given"); // a run that stands in the page
  say(state.read(location.hash).join(" "));
  if (given) state.set(config.state);
  followTheme(state);
  // only these views, for a page that embeds this one
  const figure = config.figure ?? new URLSearchParams(location.search).get("figure")?.split(",").filter((id) => /^[a-z]+$/.test(id));
  if (figure) document.body.classList.add("figure", ...figure.map((id) => `figure-${id}`));
  const cards = buildCards($("stage"), $("views"));
  const clock = new Clock(state);
  const runs = new Runs(state, given ? new Given(given.textContent) : new Local(), config.served ? new Link() : null);
  const samples = new Samples(cards.samples.body, state);
  const network = new Network(cards.network.body, {
    choose: (probe) => state.set({ probe }), turn: (place) => samples.turn(runs.main, place), pull: given ? null : pull,
  });
  const maps = new Maps(cards);
  const charts = buildCharts(cards, state, clock, runs);
  const painter = new Painter(cards, paint);

  // asking: a moved control waits for a quiet moment, a released one does not
  let timer = null;
  const moved = () => { clearTimeout(timer); say(""); timer = setTimeout(() => runs.ask(), QUIET); };
  const released = () => { clearTimeout(timer); say(""); runs.ask(); };
  function pull(bias, done) {
    const { least, most, step } = state.table.get("bias");
    state.set({ bias: Math.min(most, Math.max(least, Number((Math.round(bias / step) * step).toFixed(6)))) });
    (done ? released : moved)();
  }
  const story = new Story(state, {
    set: (settings) => { clock.pause(); state.reset(settings); released(); return runs.coming.main !== null; },
    play: (from, to) => { state.set({ t: from }); clock.play(to); },
  });

  function paint(id) {
    const run = runs.main;
    if (!run?.length || !run.names) return;
    document.documentElement.dataset.drawn = run.done ? run.key : "partial";
    document.body.classList.toggle("unlisted", !run.names.listed);
    const { body, note, title, tools } = cards[id];
    const why = missing(id, run);
    note.textContent = why;
    note.hidden = !why;
    body.hidden = Boolean(why);
    if (title) title.hidden = Boolean(why);
    if (tools) tools.hidden = Boolean(why);
    if (why) return;
    const { index } = clock;
    const atom = run.names.listed ? samples.chosen(run) : 0;
    if (id === "network") network.show(run, index, atom, state.get("bias"), state.get("probe"), state.get("network") === "linear");
    else if (id === "samples") samples.show(run, index);
    else if (id === "matrix") maps.matrix(run, index);
    else if (id === "attention") maps.attention(run, index, atom);
    else paintChart(id, run, atom);
  }

  function paintChart(id, run, atom) {
    const page = { run, other: runs.shown.other, otherName: config.methods[state.get("compare")], state, index: clock.index, atom };
    const spec = CHARTS[id](page);
    if (!spec) return;
    if (id === "probe") cards.probe.title.textContent = `Over time: ${spec.title}`;
    charts[id].show(spec);
  }

  function showCursor() {
    const run = runs.main;
    if (!run?.length) return;
    showTime(run, clock);
    for (const id of TIMED) charts[id].cursor(run.still ? null : clock.time);
  }

  runs.addEventListener("show", ({ detail: { slot, run } }) => {
    if (slot === "other") { painter.redraw("loss"); return; }
    clock.run = run;
    if (run.still) clock.pause();
    showMoves(run);
    $("theorem").textContent = run.proof ?? "";
    $("theorem").hidden = !run.proof;
    showCursor();
    painter.redrawAll();
    story.show(run);
  });
  runs.addEventListener("finished", ({ detail: { run } }) => {
    for (const id of ["csv", "netcdf"]) $(id).disabled = !run.done;
  });
  state.addEventListener("change", ({ detail }) => {
    if (detail.has("t")) { painter.redraw(...AT_CURSOR); showCursor(); }
    if (detail.has("sample")) painter.redraw("network", "samples", "attention", "probe");
    if (detail.has("probe")) painter.redraw("network", "probe");
    if (detail.has("head")) painter.redraw("neurons");
    if (detail.has("axis") || detail.has("zoom")) { painter.redraw(...TIMED); showCursor(); }
    if (detail.has("off")) painter.redraw(...Object.keys(charts));
  });

  $("skip").addEventListener("click", () => $("stage").focus());
  addEventListener("hashchange", () => location.reload()); // somebody wrote another address; the page itself replaces it silently
  addTools(cards);
  wirePlayer(state, clock);
  buildForm($("controls"), state, config.presets, { moved, released });
  wireTakeaway(state, clock, runs);
  $("help").addEventListener("click", () => { $("glossary").showModal(); $("glossary-title").focus(); }); // read from its beginning
  $("help-close").addEventListener("click", () => $("glossary").close());
  if (fresh && !figure) story.go(1);
  else runs.ask();
  if (figure && state.get("t") === null) { state.set({ t: 0 }); clock.play(); }
}

function buildCharts(cards, state, clock, runs) {
  const hooks = (id) => ({
    toggle: (name) => {
      const off = new Set((state.get("off") ?? "").split(",").filter(Boolean));
      const word = `${id}.${encodeURIComponent(name)}`;
      if (!off.delete(word)) off.add(word);
      state.set({ off: [...off].sort().join(",") || null });
    },
    ...(TIMED.includes(id) && {
      click: (time) => { if (!runs.main?.still) { clock.pause(); clock.moveTo(time); } },
      zoom: (stretch) => state.set({ zoom: stretch && stretch.map((x) => Number(x.toPrecision(6))).join(",") }),
    }),
  });
  return Object.fromEntries(Object.keys(CHARTS).map((id) => [id, new Chart(cards[id].body, hooks(id))]));
}
