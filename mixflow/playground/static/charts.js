// Curves with plotly.js: which traces each chart shows. The numbers come from the server as they are.

import { Clock } from "./clock.js";
import { still } from "./still.js";
import { TIMED } from "./views.js";
import { isOff, zoomed } from "./zoom.js";

const DASHES = ["solid", "dot", "dash", "longdash", "dashdot", "longdashdot"];
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
const MOST_MARKS = 1000;
const MOST_COLUMNS = 500; // of the switchboard; more than that many pixels it rarely has

// What a chart needs to know of the page: the run, one to compare with, the state, colours.
export const CHARTS = { loss, neurons, scores, switchboard, sectors, geometry };

export function draw(body, id, page) {
  const picture = CHARTS[id](page);
  const { traces, layout } = page.run.still && TIMED.includes(id) ? still(picture) : picture;
  traces.forEach((trace, i) => { if (isOff(page.state, id, i)) trace.visible = "legendonly"; });
  return Plotly.react(body, traces, { ...common(page), ...layout }, CONFIG);
}

// Why a chart cannot be shown for this run, or nothing.
export function missing(id, run) {
  if (id === "sectors" && !run.has("A_sector")) return "Only for the plain task at infinite width: otherwise the classes are not alike and there are no symmetric sectors.";
  if (id === "matrix" && !run.has("A")) return "With this many classes the scores are told by the two sectors below.";
  if ((id === "attention" || id === "geometry") && !run.names?.listed) return "With this many classes the samples cannot be listed one by one.";
  return "";
}

function common({ ink, faint, text }) {
  return {
    margin: { l: 52, r: 12, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: ink },
    colorway: [text],
    hoverlabel: { namelength: -1 },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } },
    hovermode: "x unified",
    yaxis: axis(faint),
    xaxis: axis(faint),
    dragmode: "zoom",
  };
}

function axis(faint, more = {}) {
  return { gridcolor: faint, zerolinecolor: faint, automargin: true, fixedrange: true, exponentformat: "e", hoverformat: ".5g", ...more };
}

function timeAxis({ run, state, faint }) {
  const kind = state.get("axis");
  const low = Clock.start(run, kind);
  const zoom = zoomed(state, run, low);
  const full = kind === "log" ? [Math.log10(low), Math.log10(run.until)] : [0, run.until];
  return axis(faint, {
    // 2, 5, 10, 20 … is as dense as labels fit; over many decades, and inside one, plotly knows better
    dtick: kind === "log" && !zoom && full[1] - full[0] < 5 ? "D2" : undefined,
    type: kind, range: zoom ?? full, fixedrange: false, hoverformat: ".6g", tickformat: "~g",
    title: { text: "time", font: { size: 11 }, standoff: 4 },
  });
}

function shades({ run, state, colours }) {
  const low = Clock.start(run, state.get("axis"));
  return run.stages.filter((stage) => stage.found && stage.end > stage.start).map((stage) => ({
    type: "rect", layer: "below", xref: "x", yref: "paper", y0: 0, y1: 1,
    x0: Math.max(stage.start, low), x1: stage.end, fillcolor: colours.stages[stage.name], opacity: 0.22, line: { width: 0 },
  }));
}

function line(x, y, name, colour, dash = "solid", more = {}) {
  return { type: "scatter", mode: "lines", x, y, name, line: { color: colour, dash, width: 2 }, hovertemplate: "%{y:.5g}", ...more };
}

function loss(page) {
  const { run, other, colours, text } = page;
  const names = [["all", "loss", "solid", text], ["easy", "loss_easy", "dash", colours.lines.easy], ["hard", "loss_hard", "dashdot", colours.lines.hard]];
  const traces = names.map(([name, key, dash, colour]) => line(run.times, run.line(key), `${name} samples`, colour, dash));
  if (other?.length) {
    traces.push(line(other.times, other.line("loss"), `all, ${page.otherName}`, colours.lines.rest, "dot", { line: { color: colours.lines.rest, dash: "dot", width: 3 } }));
  }
  const values = traces.flatMap(({ y }) => [...y]).filter((x) => x > 0);
  const decades = Math.log10(values.reduce((a, b) => Math.max(a, b), 0) / values.reduce((a, b) => Math.min(a, b), Infinity));
  const labels = shades(page).map((shade, i) => ({
    // annotations on a logarithmic axis are placed by the exponent, shapes by the value
    x: middle(page, shade.x0, shade.x1), y: 0, yref: "paper", yanchor: "bottom", showarrow: false,
    text: run.stages.filter((stage) => stage.found && stage.end > stage.start)[i].name, font: { size: 11 },
  }));
  return {
    traces,
    layout: {
      xaxis: timeAxis(page), shapes: shades(page), annotations: labels, showlegend: true,
      yaxis: axis(page.faint, { type: "log", tickformat: "~g", dtick: decades > 1.5 ? 1 : decades > 0.5 ? "D2" : "D1", title: { text: "loss", font: { size: 11 } } }),
    },
  };
}

function middle({ state }, a, b) {
  return state.get("axis") === "log" ? (Math.log10(a) + Math.log10(b)) / 2 : (a + b) / 2;
}

function neurons(page) {
  const { run, state, colours } = page;
  const h = state.get("head") === "plus" ? 0 : 1;
  let traces;
  if (run.has("w")) {
    const features = run.names.features;
    const place = (f) => features.slice(0, f).filter((name) => name[0] === features[f][0]).length; // among its kind
    traces = features.map((name, f) => line(run.times, run.line("w", h, f), `w·${name}`, colours.lines[name[0]] ?? colours.lines.rest, DASHES[place(f) % DASHES.length]));
  } else {
    traces = ["c", "v"].map((name, f) => line(run.times, run.line("w_kind", h, f), `w·${name} (every class)`, colours.lines[name], DASHES[2 * (1 - f)]));
  }
  return { traces, layout: { xaxis: timeAxis(page), shapes: shades(page), showlegend: traces.length <= 8 } };
}

function scores(page) {
  const { run, colours } = page;
  const looks = [["own", "solid"], ["other", "dash"], ["query", "dashdot"], ["rest", "dot"]];
  const traces = run.names.lines.map((name, i) => line(run.times, run.line("scores", i), subscripted(name), colours.lines[looks[i][0]], looks[i][1]));
  return { traces, layout: { xaxis: timeAxis(page), shapes: shades(page), showlegend: true } };
}

function subscripted(name) {
  return name.split("  ")[0].replace(/_(.)/g, "<sub>$1</sub>");
}

function sectors(page) {
  const { run, colours } = page;
  const kinds = [["c", "c", "own"], ["c", "v", "other"], ["v", "c", "query"], ["v", "v", "v"]];
  const traces = [];
  ["common", "contrast"].forEach((sector, s) => {
    kinds.forEach(([key, query, colour], i) => {
      traces.push(line(run.times, run.line("A_sector", s, i >> 1, i & 1), `A[${key}, ${query}]`, colours.lines[colour], s ? "solid" : "dash",
        { xaxis: "x", yaxis: s ? "y2" : "y", showlegend: Boolean(s), hovertemplate: `%{y:.5g} (${sector})` }));
    });
  });
  const half = (low, high, title) => axis(page.faint, { domain: [low, high], title: { text: title, font: { size: 11 } } });
  return {
    traces,
    layout: { xaxis: { ...timeAxis(page), anchor: "y2" }, yaxis: half(0.54, 1, "common"), yaxis2: half(0, 0.46, "contrast"), shapes: shades(page), showlegend: true },
  };
}

function switchboard(page) {
  const { run, state, colours, dark } = page;
  const atoms = run.names.atoms;
  const every = Math.ceil(run.length / MOST_COLUMNS);
  const columns = Array.from({ length: Math.ceil(run.length / every) }, (_, i) => Math.min(i * every, run.length - 1));
  // Each column reaches from its save to the next; the first begins where the axis does.
  const low = Clock.start(run, state.get("axis"));
  const x = [...columns.map((i) => Math.max(run.times[i], low)), run.times[run.length - 1]];
  const rows = ["+", "−"].flatMap((head, h) => atoms.map((atom, a) => ({ name: `${head}  ${atom}`, h, a })));
  const z = rows.map(({ h, a }) => columns.map((i) => run.at("mode", i, h, a)));
  const tones = [dark ? "#2b3137" : "#e4e4e4", colours.lines.easy, colours.lines.hard];
  const scale = tones.flatMap((tone, i) => [[i / 3, tone], [(i + 1) / 3, tone]]);
  const traces = [{
    type: "heatmap", x, y: rows.map((row) => row.name), z, zmin: -0.5, zmax: 2.5, colorscale: scale, xgap: 0, ygap: rows.length > 60 ? 0 : 2,
    colorbar: { tickvals: [0, 1, 2], ticktext: ["off", "on", "sliding"], thickness: 10, len: 1 },
    hovertemplate: "%{y}<br>t = %{x:.5g}: %{customdata}<extra></extra>",
    customdata: z.map((row) => row.map((mode) => ["off", "on", "sliding"][mode])),
  }];
  const events = run.events.flatMap(([time, before, after, at]) => at.map((row) => ({ time, name: rows[row].name, words: `${before} → ${after}` }))).slice(0, MOST_MARKS);
  if (events.length) {
    traces.push({
      type: "scatter", mode: "markers", x: events.map((e) => e.time), y: events.map((e) => e.name), text: events.map((e) => e.words), name: "events",
      marker: { symbol: "triangle-down", size: rows.length > 60 ? 5 : 8, color: page.text, line: { width: 1, color: page.paper } }, showlegend: false,
      hovertemplate: "t = %{x:.6g}: %{text}<extra></extra>",
    });
  }
  return {
    traces,
    layout: { xaxis: timeAxis(page), yaxis: { ...axis(page.faint), autorange: "reversed", showticklabels: rows.length <= 48, tickfont: { size: 10 } }, hovermode: "closest", margin: { l: 90, r: 12, t: 8, b: 36 } },
  };
}

function geometry(page) {
  const { run, colours, index } = page;
  const view = run.views.geometry;
  if (!view) return { traces: [], layout: { xaxis: { visible: false }, yaxis: { visible: false } } };
  const { labels, atoms } = view.header;
  const { shape, data } = view.arrays.points;
  const at = (t, p, i) => data[(t * shape[1] + p) * 2 + i];
  const extent = (i) => Math.max(...[0, 1].map((k) => (k ? 1 : -1) * extremum(data, i, k))) * 1.15 || 1;
  const traces = [];
  if (shape[1] <= 24) {
    labels.forEach((label, p) => {
      const path = Array.from({ length: index + 1 }, (_, t) => t);
      traces.push({ type: "scatter", mode: "lines", x: path.map((t) => at(t, p, 0)), y: path.map((t) => at(t, p, 1)), showlegend: false, hoverinfo: "skip",
        line: { width: 1, color: label > 0 ? colours.lines.easy : colours.lines.hard } });
    });
  }
  for (const label of [1, -1]) {
    const points = labels.flatMap((y, p) => (y === label ? [p] : []));
    traces.push({ type: "scatter", mode: "markers", name: `label ${label > 0 ? "+" : "−"}`, text: points.map((p) => atoms[p]),
      x: points.map((p) => at(index, p, 0)), y: points.map((p) => at(index, p, 1)), hovertemplate: "%{text}: %{x:.3f}, %{y:.3f}<extra></extra>",
      marker: { size: 13, opacity: 0.85, symbol: label > 0 ? "circle" : "diamond", color: label > 0 ? colours.lines.easy : colours.lines.hard } });
  }
  const [w, h] = [extent(0), extent(1)];
  return {
    traces,
    layout: {
      hovermode: "closest", showlegend: true,
      xaxis: axis(page.faint, { range: [-w, w], title: { text: "along the separating direction", font: { size: 11 } } }),
      yaxis: axis(page.faint, { range: [-h, h], title: { text: "across", font: { size: 11 } } }),
      shapes: [{ type: "line", xref: "x", yref: "paper", x0: 0, x1: 0, y0: 0, y1: 1, line: { dash: "dash", width: 2, color: page.text } }],
    },
  };
}

function extremum(data, coordinate, largest) {
  let found = largest ? -Infinity : Infinity;
  for (let i = coordinate; i < data.length; i += 2) found = largest ? Math.max(found, data[i]) : Math.min(found, data[i]);
  return found;
}
