// The page: state -> request -> frames -> views, and one clock for all of them.

import { CHARTS, TIMED, draw, missing } from "./charts.js";
import { Clock } from "./clock.js";
import { buildForm } from "./form.js";
import { Link } from "./link.js";
import { Maps, rgb, shade } from "./maps.js";
import { State } from "./state.js";
import { addTools, wireSharing } from "./takeaway.js";
import { Trajectory } from "./trajectory.js";
import { VIEWS, buildCards, element, number } from "./views.js";

const $ = (id) => document.getElementById(id);
const DARK = matchMedia("(prefers-color-scheme: dark)");
const QUIET = 40; // ms without movement before a dragged slider asks for its run

const config = await (await fetch("/config.json")).json();
const state = new State(config.controls);
const problems = state.read(location.search);
const cards = buildCards($("views"));
const clock = new Clock(state);
const maps = { matrix: new Maps(cards.matrix.body), attention: new Maps(cards.attention.body) };
const colours = { lines: config.colours, stages: config.stages };
const shown = { main: null, other: null }; // the runs on screen
const coming = { main: null, other: null }; // keys asked for, until their first curve replaces what is shown
const asked = { main: null, other: null }; // the last request of each slot, as text
const hidden = new Set();
const dirty = new Set();
let zoom = null;
let scheduled = false;

say(problems.join(" "));
const link = new Link();

// asking ---------------------------------------------------------------------------------------------------------------

let timer = null;
const moved = () => { clearTimeout(timer); say(""); timer = setTimeout(ask, QUIET); };
const released = () => { clearTimeout(timer); say(""); ask(); };

function ask(again = false) {
  request("main", state.request(), again);
  const compare = state.get("compare");
  if (compare !== "none" && compare !== state.get("method")) request("other", state.request({ method: compare }), again);
  else {
    if (coming.other) link.send({ type: "cancel", slot: "other" });
    shown.other = coming.other = asked.other = null;
    redraw("loss");
  }
}

function request(slot, controls, again) {
  const text = JSON.stringify(controls);
  if (text === asked[slot] && !again) return;
  if (slot === "main") performance.mark("mixflow:asked");
  if (link.send({ type: "run", slot, controls }) === null) return;
  asked[slot] = text;
  coming[slot] = { id: link.number, key: null };
  if (slot === "main") status("asking …", "running");
}

const ANSWERS = {
  accepted({ id, key }) {
    for (const slot of ["main", "other"]) if (coming[slot]?.id === id) coming[slot].key = key;
  },
  start(header) {
    each(header.key, (slot) => { coming[slot].run = new Trajectory(header); });
  },
  chunk(header, arrays) {
    each(header.key, (slot) => {
      const { run } = coming[slot];
      run.append(header, arrays);
      show(slot, run);
    });
  },
  done(header, arrays) {
    each(header.key, (slot) => {
      const { run } = coming[slot];
      run.finish(header, arrays);
      show(slot, run);
      coming[slot] = null;
      if (slot === "main") finished(run);
    });
  },
  sample(header, arrays) {
    if (shown.main?.key !== header.key) return;
    shown.main.views.sample = { header, arrays };
    redraw("attention");
  },
  geometry(header, arrays) {
    if (shown.main?.key !== header.key) return;
    shown.main.views.geometry = { header, arrays };
    redraw("geometry");
  },
  refused(header) {
    for (const slot of ["main", "other"]) {
      if (coming[slot] && (coming[slot].id === header.id || coming[slot].key === header.key)) coming[slot] = null;
    }
    say(header.message);
    status("not run", "refused");
  },
  failed(header) {
    ANSWERS.refused(header);
  },
};

link.addEventListener("frame", ({ detail: { header, arrays } }) => ANSWERS[header.kind]?.(header, arrays));
link.addEventListener("open", () => {
  document.body.classList.remove("gone");
  if (!shown.main?.done || $("status").dataset.state === "gone") ask(true);
});
link.addEventListener("gone", () => {
  document.body.classList.add("gone");
  status("The server is gone: start it again with “mixflow playground”; this page reconnects by itself.", "gone");
});

function each(key, act) {
  for (const slot of ["main", "other"]) if (coming[slot]?.key === key) act(slot);
}

// showing --------------------------------------------------------------------------------------------------------------

function show(slot, run) {
  const fresh = shown[slot] !== run;
  shown[slot] = run;
  if (slot === "other") return redraw("loss");
  if (fresh) {
    performance.mark("mixflow:first-data");
    zoom = null;
  }
  clock.run = run;
  if (!run.done) status(`computing, t = ${number(run.times[run.length - 1], 3)} of ${number(run.until, 3)}`, "running");
  fillSamples(run);
  // While a run grows only its curves do: drawing everything would take the engine's processor time.
  redraw(...(run.done ? VIEWS.map((view) => view.id) : ["loss", "neurons", "scores"]));
}

function finished(run) {
  const kind = { symmetric: "22 numbers", gram: "exact Gram reduction", full: "every weight" }[run.model];
  status(`${kind}, ${run.length} saves, ${number(run.seconds, 2)} s`, "done");
  if (run.warning) say(run.warning);
  for (const [id, ending] of [["netcdf", "nc"], ["csv", "csv"]]) {
    $(id).href = `/run/${run.key}.${ending}`;
    $(id).removeAttribute("aria-disabled");
  }
  if (run.names.listed) {
    link.send({ type: "geometry", key: run.key });
    askSample();
  }
}

function askSample() {
  const run = shown.main;
  if (!run?.done || !run.names.listed) return;
  const atom = Math.min(state.get("sample"), run.names.atoms.length - 1);
  if (run.views.sample?.header.atom !== atom) link.send({ type: "sample", key: run.key, atom });
}

function redraw(...ids) {
  for (const id of ids) dirty.add(id);
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(paint);
}

// The loss first, then whatever is on screen, a few milliseconds in each frame: a moving slider stays smooth.
function paint() {
  scheduled = false;
  const began = performance.now();
  for (const { id } of VIEWS) {
    if (!dirty.has(id) || hidden.has(id)) continue;
    dirty.delete(id);
    if (shown.main?.length) paintView(id);
    if (performance.now() - began > 10 && [...dirty].some((other) => !hidden.has(other))) return redraw();
  }
  moveCursor();
}

function paintView(id) {
  const run = shown.main;
  const { body, note } = cards[id];
  const why = missing(id, run);
  note.textContent = why;
  note.hidden = !why;
  body.hidden = Boolean(why);
  if (why) return;
  if (id in CHARTS) {
    draw(body, id, page());
    if (!body.dataset.wired) wireChart(body, id);
  }
  if (id === "matrix") paintMatrix(run);
  if (id === "attention") paintAttention(run);
  if (id === "loss") {
    performance.mark(run.done ? "mixflow:drawn-finished" : "mixflow:drawn");
    document.documentElement.dataset.drawn = run.done ? run.key : "partial";
  }
}

function page() {
  const style = getComputedStyle(document.documentElement);
  const tone = (name) => style.getPropertyValue(`--${name}`).trim();
  const otherName = state.table.get("method").choices[state.get("compare")];
  return {
    run: shown.main, other: shown.other, otherName, state, colours, zoom, index: clock.index, dark: isDark(),
    text: tone("text"), ink: tone("ink"), faint: tone("faint"), paper: tone("paper"),
  };
}

function paintMatrix(run) {
  const top = largest(run);
  const paper = rgb(isDark() ? "#20252a" : "#f6f6f6");
  const [cold, warm] = [rgb(colours.lines.other), rgb(colours.lines.own)];
  const { index } = clock;
  maps.matrix.show({
    names: run.names.features, digits: 2, rowsAre: "key", columnsAre: "query", chips: false,
    value: (h, i, j) => run.at("A", index, h, i, j),
    tone: (x) => tinted(paper, x < 0 ? cold : warm, Math.abs(x) / top),
  });
}

function paintAttention(run) {
  const view = run.views.sample;
  if (!view) return;
  const { shape, data } = view.arrays.attention;
  const n = shape[2];
  const { index } = clock;
  const [paper, full] = [rgb(isDark() ? "#20252a" : "#f6f6f6"), rgb(colours.lines.own)];
  // rows are queries, so that each row sums to one; the array has keys first
  maps.attention.show({
    names: view.header.tokens, digits: 2, rowsAre: "query", columnsAre: "key", chips: true,
    value: (h, i, j) => data[((index * 2 + h) * n + j) * n + i],
    tone: (x) => tinted(paper, full, x),
  });
  $("verdict").textContent = `label ${view.header.label > 0 ? "+" : "−"}, margin ${number(run.at("margin", index, view.header.atom))} at the cursor`;
}

function tinted(paper, colour, share) {
  const light = isDark() ? "#f0f0f0" : "#111";
  return [shade(paper, colour, share), share > 0.6 ? "#fff" : light];
}

function largest(run) {
  if (run.largest?.length !== run.length) {
    const top = run.series.A.data.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
    run.largest = { length: run.length, top };
  }
  return run.largest.top;
}

// the cursor -----------------------------------------------------------------------------------------------------------

function moveCursor() {
  const run = shown.main;
  if (!run?.length) return;
  const { time, index } = clock;
  for (const id of TIMED) placeCursor(cards[id].body, time);
  if ($("scrub") !== document.activeElement || clock.playing) $("scrub").value = 1000 * clock.place(time);
  $("scrub").setAttribute("aria-valuetext", `t = ${number(time)}`);
  const stage = run.stageAt(time);
  const values = { time: number(time, 6), loss: number(run.at("loss", index), 6), easy: number(run.at("loss_easy", index), 6),
    hard: number(run.at("loss_hard", index), 6), accuracy: number(run.at("accuracy", index), 6), stage: stage ? stage.name : "–" };
  for (const [name, value] of Object.entries(values)) $(`read-${name}`).textContent = value;
  document.documentElement.dataset.index = index;
}

// A thin element over the chart: moving it costs nothing, redrawing the chart would.
function placeCursor(body, time) {
  const layout = body._fullLayout;
  if (!layout?.xaxis || body.hidden) return;
  let mark = body.querySelector(":scope > .cursor");
  if (!mark) body.append((mark = element("div", { class: "cursor", "aria-hidden": "true" })));
  const { xaxis } = layout;
  const x = xaxis.type === "log" && time <= 0 ? 0 : xaxis.d2p(time);
  const inside = x >= 0 && x <= xaxis._length + 1;
  mark.hidden = !inside;
  const bottom = layout.height - layout._size.t - layout._size.h;
  Object.assign(mark.style, { left: `${xaxis._offset + x}px`, top: `${layout._size.t}px`, bottom: `${bottom}px` });
}

function wireChart(body, id) {
  body.dataset.wired = "yes";
  if (!TIMED.includes(id)) return;
  body.on("plotly_click", ({ points }) => { clock.pause(); clock.moveTo(Number(points[0].x)); });
  body.on("plotly_afterplot", () => moveCursor());
  // One zoom for all charts over time.
  body.on("plotly_relayout", (change) => {
    if ("xaxis.range[0]" in change) zoom = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    else if (change["xaxis.autorange"]) zoom = null;
    else return;
    redraw(...TIMED);
  });
}

state.addEventListener("change", ({ detail }) => {
  if (detail.has("t")) {
    redraw("geometry", "matrix", "attention");
    moveCursor();
  }
  if (detail.has("head")) redraw("neurons");
  if (detail.has("axis")) { zoom = null; redraw(...TIMED); }
  if (detail.has("sample")) askSample();
  if (detail.has("theme")) theme();
});

// wiring ---------------------------------------------------------------------------------------------------------------

function isDark() {
  const theme = state.get("theme");
  return theme === "auto" ? DARK.matches : theme === "dark";
}

function theme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  redraw(...VIEWS.map((view) => view.id));
}

function status(text, kind) {
  $("status").textContent = text;
  $("status").dataset.state = kind;
}

function say(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}

function fillSamples(run) {
  const menu = $("sample");
  const atoms = run.names?.listed ? run.names.atoms : [];
  if (menu.dataset.atoms !== atoms.join()) {
    menu.dataset.atoms = atoms.join();
    menu.replaceChildren(...atoms.map((atom, i) => element("option", { value: i }, `${atom.replaceAll("-", "−")}${run.names.hard[i] ? "  (hard)" : ""}`)));
  }
  menu.hidden = !atoms.length;
  menu.value = Math.min(state.get("sample"), atoms.length - 1);
}

const sampleMenu = element("select", { id: "sample", "aria-label": "Sample" });
cards.attention.card.insertBefore(element("p", { id: "verdict", class: "verdict" }), cards.attention.note);
cards.attention.tools.append(sampleMenu);
sampleMenu.addEventListener("change", () => state.set({ sample: Number(sampleMenu.value) }));
addTools(cards);

for (const name of ["time", "loss", "easy", "hard", "accuracy", "stage"]) {
  const pair = element("div");
  pair.append(element("dt", {}, name), element("dd", { id: `read-${name}` }, "–"));
  $("readout").append(pair);
}
for (const [value, label] of Object.entries(state.table.get("speed").choices)) $("speed").append(element("option", { value }, label));
$("speed").value = state.get("speed");
$("speed").addEventListener("change", () => state.set({ speed: $("speed").value }));
$("play").addEventListener("click", () => clock.toggle());
$("back").addEventListener("click", () => clock.step(-1));
$("forward").addEventListener("click", () => clock.step(1));
$("scrub").addEventListener("input", () => {
  if (!clock.run) return;
  clock.pause();
  clock.moveTo(clock.timeAt(Number($("scrub").value) / 1000));
});
clock.addEventListener("playing", () => {
  $("play").textContent = clock.playing ? "❚❚ pause" : "▶︎ play";
  $("play").setAttribute("aria-label", clock.playing ? "Pause" : "Play");
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, button, a, dialog") || event.ctrlKey || event.metaKey || event.altKey || !clock.run) return;
  const act = { " ": () => clock.toggle(), ArrowLeft: () => clock.step(-1), ArrowRight: () => clock.step(1) }[event.key];
  if (act) { event.preventDefault(); act(); }
});
DARK.addEventListener("change", theme);
new ResizeObserver(() => moveCursor()).observe($("views"));

// Only what is on screen is drawn; the rest when it is scrolled to.
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const id = target.querySelector(".body").id;
    if (isIntersecting) hidden.delete(id);
    else hidden.add(id);
  }
  if (dirty.size) redraw();
}, { rootMargin: "200px" });
for (const { card } of Object.values(cards)) watcher.observe(card);

buildForm($("controls"), state, config.presets, { moved, released });
wireSharing(state, clock);
theme();
