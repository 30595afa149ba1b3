// Which curves each chart shows, from a run's series as they are.

import { Clock } from "./clock.js";
import { tokenName } from "./draw.js";
import { plane } from "./plane.js";

const DASHES = ["solid", "dash", "dot", "dashdot"];
const TINY = 0.01; // scores and values smaller than this are drawn as the 0 they are
const MOST_MARKS = 600;
const ROWS = 60; // of the switchboard, up to which they have names

// page: {run, other, otherName, state, index}
export const CHARTS = { loss, neurons, scores, switchboard, sectors, geometry, probe };
export const TIMED = ["loss", "probe", "neurons", "scores", "switchboard", "sectors"];

// Why a chart cannot be shown for this run, or nothing.
export function missing(id, run) {
  const listed = run.names?.listed;
  if (run.still && ["loss", "probe", "neurons", "scores", "sectors"].includes(id)) return "Written down, not trained: there is no course to draw. The network above shows its one state.";
  if (id === "sectors" && !run.has("A_sector")) return "Only for equal classes at infinite width: otherwise the classes are not alike and there are no symmetric sectors.";
  if (!listed && id === "matrix") return "With this many classes the scores are told by the two sectors.";
  if (!listed && ["network", "samples", "attention", "geometry", "probe"].includes(id)) return "With this many classes the samples cannot be listed one by one; the curves tell of all of them.";
  return "";
}

function timeAxis({ run, state }) {
  const kind = state.get("axis");
  const low = Clock.start(run, kind);
  return { kind, range: zoomed(state, run, low) ?? [low, run.until || 1], title: "time" };
}

// The state's stretch of time, or null: all of it. A stretch that this run does not reach was meant for another.
function zoomed(state, run, start) {
  const text = state.get("zoom");
  if (!text) return null;
  const [from, to] = text.split(",").map(Number);
  const low = state.get("axis") === "log" ? Math.max(from, start) : from;
  return low < to && low < run.until ? [low, to] : null;
}

function off(state, id) {
  const names = (state.get("off") ?? "").split(",").filter((word) => word.startsWith(`${id}.`));
  return new Set(names.map((word) => decodeURIComponent(word.slice(id.length + 1))));
}

function bands(run, label = false) {
  return run.stages.filter((stage) => stage.found && stage.end > stage.start).map(({ name, start, end }) => ({ name, from: start, to: end, label }));
}

function common(page, id, panels, more = {}) {
  return { x: timeAxis(page), panels, bands: bands(page.run), off: off(page.state, id), ...more };
}

// A linear axis that holds all curves and 0, and is never finer than TINY.
function linear(lines, title) {
  let [low, high] = [-TINY, TINY];
  for (const { y } of lines) for (const value of y) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const room = 0.05 * (high - low);
  return { kind: "linear", range: [low === -TINY ? low : low - room, high === TINY ? high : high + room], title };
}

function loss(page) {
  const { run, other } = page;
  const kinds = [["all samples", "loss", "solid", "all"], ["easy samples", "loss_easy", "dash", "easy"], ["hard samples", "loss_hard", "dashdot", "hard"]];
  const lines = kinds.map(([name, key, dash, tone]) => ({ x: run.times, y: run.line(key), name, dash, tone }));
  if (other?.length) lines.push({ x: other.times, y: other.line("loss"), name: `all, ${page.otherName}`, dash: "dot", tone: "rest" });
  let [low, high] = [Infinity, 0];
  for (const { y } of lines) for (const value of y) if (value > 0) [low, high] = [Math.min(low, value), Math.max(high, value)];
  const range = [Math.max(low, high * 1e-12) / 1.15, high * 1.15];
  return common(page, "loss", [{ lines, y: { kind: "log", range, title: "loss" } }], { bands: bands(run, true) });
}

function neurons(page) {
  const { run, state } = page;
  const h = state.get("head") === "plus" ? 0 : 1;
  let lines;
  if (run.has("w")) {
    const { features } = run.names;
    const place = (f) => features.slice(0, f).filter((name) => name[0] === features[f][0]).length; // among its kind
    lines = features.map((name, f) => ({ x: run.times, y: run.line("w", h, f), name: `w·${name}`, tone: name[0], dash: DASHES[place(f) % DASHES.length] }));
  } else {
    lines = ["c", "v"].map((name, f) => ({ x: run.times, y: run.line("w_kind", h, f), name: `w·${name} (every class)`, tone: name, dash: DASHES[1 - f] }));
  }
  return common(page, "neurons", [{ lines, y: linear(lines, "value") }]);
}

function scores(page) {
  const { run } = page;
  const looks = [["own", "solid"], ["other", "dash"], ["query", "dashdot"], ["rest", "dot"]];
  const lines = run.names.lines.map((name, i) => ({ x: run.times, y: run.line("scores", i), name: subscripts(name), tone: looks[i][0], dash: looks[i][1] }));
  return common(page, "scores", [{ lines, y: linear(lines, "score") }]);
}

function subscripts(name) {
  return name.split("  ")[0].replace("_k", "ₖ").replace("_k", "ₖ").replace("_j", "ⱼ");
}

function sectors(page) {
  const { run } = page;
  const kinds = [["c", "c", "own"], ["c", "v", "other"], ["v", "c", "query"], ["v", "v", "v"]];
  const panels = ["common", "contrast"].map((sector, s) => {
    const lines = kinds.map(([key, query, tone], i) => ({ x: run.times, y: run.line("A_sector", s, i >> 1, i & 1), name: `A[${key}, ${query}]`, tone, dash: DASHES[i] }));
    return { lines, y: linear(lines, sector) };
  });
  return common(page, "sectors", panels);
}

// Every save counts: a neuron that flickers shows it.
function switchboard(page) {
  const { run } = page;
  const { times } = run;
  const width = run.until / Math.max(1, run.length - 1);
  const list = ["+", "−"].flatMap((head, h) => run.names.atoms.map((atom, a) => {
    const runs = [];
    for (let i = 0; i < run.length; i += 1) {
      const mode = run.mode(i, h, a);
      const to = run.still ? 1 : times[i + 1] ?? times[i] + width;
      if (runs.length && runs.at(-1)[2] === mode) runs.at(-1)[1] = to;
      else runs.push([times[i], to, mode]);
    }
    return { name: `${head}  ${atom.replaceAll("-", "−")}`, runs };
  }));
  const marks = run.events.flatMap(([time, , , rows]) => rows.map((row) => ({ time, row }))).slice(0, MOST_MARKS);
  const longest = Math.max(...list.map(({ name }) => name.length));
  const x = run.still ? { kind: "linear", range: [0, 1], title: "" } : timeAxis(page);
  const height = Math.max(320, Math.min(700, 50 + 12 * list.length));
  return { x, rows: { list, marks, groups: list.length <= ROWS ? [] : ["head +", "head −"] }, panels: [], quiet: true, height, room: list.length <= ROWS ? Math.min(150, 16 + 5.6 * longest) : undefined };
}

function geometry({ run, index }) {
  run.plane ??= { length: 0 };
  if (run.plane.length !== run.length) run.plane = { length: run.length, ...plane(run) };
  const { list, times } = run.plane;
  if (!list) return null;
  const now = Math.max(0, times.findLastIndex((t) => t <= index));
  const extent = (i) => 1.15 * Math.max(0.05, ...list.flatMap(({ path }) => path.map((point) => Math.abs(point[i]))));
  const [w, h] = [extent(0), extent(1)];
  const trail = list.length <= 24;
  const points = list.map(({ path, label, name }) => ({ name, tone: label > 0 ? "plus" : "minus", path: trail ? path.slice(0, now + 1) : [path[now]] }));
  return { x: { kind: "linear", range: [-w, w], title: "along the direction that separates the labels" }, panels: [], points: { list: points, range: [-h, h] }, quiet: true };
}

// What was clicked in the picture of the network, over time: {title, lines, range}. "margin", "z0", "w1", "k2": answer, neuron of a head, values of a head, token.
export function probed(page) {
  const { run, state, atom } = page;
  const tokens = run.names.tokens[atom];
  const [kind, at] = [state.get("probe")[0], Number(state.get("probe").slice(1))];
  const head = ["+", "−"][at];
  const { features } = run.names;
  if (kind === "z") return { title: `z of head ${head} on this sample: below 0 its neuron is off`, lines: [{ name: `z, head ${head}`, y: run.line("z", at, atom), tone: at ? "minus" : "plus" }] };
  if (kind === "w") {
    const seen = [...new Set(tokens.map(([f]) => f))];
    return { title: `what head ${head} makes of each token`, lines: seen.map((f, i) => ({ name: `w·${features[f]}`, y: run.line("w", at, f), tone: features[f][0], dash: DASHES[i % 3] })) };
  }
  if (kind === "k" && at < tokens.length) {
    const name = tokenName(features[tokens[at][0]], tokens[at][1]);
    const shares = [0, 1].map(() => new Float64Array(run.length));
    for (let t = 0; t < run.length; t += 1) {
      const P = run.attention(t, atom);
      for (const h of [0, 1]) for (let q = 0; q < tokens.length; q += 1) shares[h][t] += P[(h * tokens.length + at) * tokens.length + q] / tokens.length;
    }
    return { title: `share of all looks that ${name} gets in this sample`, range: [0, 1], lines: shares.map((y, h) => ({ name: `head ${["+", "−"][h]}`, y, tone: h ? "minus" : "plus", dash: DASHES[h] })) };
  }
  return { title: "margin of this sample: above 0 the answer is right", lines: [{ name: "margin y·F", y: run.line("margin", atom), tone: "all" }] };
}

function probe(page) {
  const { title, lines, range } = probed(page);
  for (const line of lines) line.x = page.run.times;
  return common(page, "probe", [{ lines, y: range ? { kind: "linear", range, title: "" } : linear(lines, "") }], { title });
}
