// What a visitor does to the charts themselves, kept in the state and so in the address: the stretch of time they show,
// and the curves switched off in their legends.

import { TIMED } from "./views.js";

const DIGITS = 6;

// The range of the time axis for the state's stretch of time, or null: all of it. A stretch that this run does not reach
// was meant for another.
export function zoomed(state, run, start) {
  const text = state.get("zoom");
  if (!text) return null;
  const log = state.get("axis") === "log";
  const [from, to] = text.split(",").map(Number);
  const low = log ? Math.max(from, start) : from;
  if (!(low < to) || low >= run.until) return null;
  return log ? [Math.log10(low), Math.log10(to)] : [low, to];
}

// "from,to" of a range that was dragged on an axis.
function stretch(kind, range) {
  const [from, to] = range.map((x) => Math.max(0, kind === "log" ? 10 ** x : x));
  return `${Number(from.toPrecision(DIGITS))},${Number(to.toPrecision(DIGITS))}`;
}

export function isOff(state, id, trace) {
  return (state.get("off") ?? "").split(",").includes(`${id}.${trace}`);
}

// Listen to one chart. Each change goes through the state, which redraws every chart it concerns.
export function wireChart(body, id, state) {
  body.on("plotly_legendclick", ({ curveNumber }) => {
    const off = new Set((state.get("off") ?? "").split(",").filter(Boolean));
    const name = `${id}.${curveNumber}`;
    if (!off.delete(name)) off.add(name);
    state.set({ off: [...off].sort().join(",") || null });
    return false;
  });
  body.on("plotly_legenddoubleclick", () => false);
  if (!TIMED.includes(id)) return;
  body.on("plotly_doubleclick", () => state.set({ zoom: null }));
  body.on("plotly_relayout", (change) => {
    if (!("xaxis.range[0]" in change)) return;
    state.set({ zoom: stretch(state.get("axis"), [change["xaxis.range[0]"], change["xaxis.range[1]"]]) });
  });
}
