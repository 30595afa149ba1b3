// Curves, bands and rows over time as plain SVG: axes, legend, hover, a time cursor, dragging to zoom.

import { element, number, svg, text } from "./draw.js";

const ROOM = { left: 54, right: 18, top: 8, bottom: 34 };
const DASHES = { solid: "", dash: "7 4", dot: "2 3", dashdot: "8 3 2 3" };

// A scale: value -> pixel and back.
function scale(kind, [low, high], from, to) {
  const [forth, back] = kind === "log" ? [Math.log10, (x) => 10 ** x] : [(x) => x, (x) => x];
  const [a, b] = [forth(low), forth(high)];
  return {
    kind, low, high,
    at: (value) => from + ((forth(Math.max(value, kind === "log" ? 1e-300 : -Infinity)) - a) / (b - a)) * (to - from),
    value: (pixel) => back(a + ((pixel - from) / (to - from)) * (b - a)),
  };
}

function ticks({ kind, low, high }, most) {
  if (kind === "log") return logTicks(low, high, most);
  const raw = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((x) => x * size).find((x) => x >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const inside = (steps, every) => {
    const found = [];
    for (let d = first; d <= last; d += 1) if (d % every === 0) for (const s of steps) found.push(s * 10 ** d);
    return found.map((x) => Number(x.toPrecision(3))).filter((x) => x >= low * 0.999 && x <= high * 1.001);
  };
  const choices = [[[1, 2, 3, 4, 5, 6, 7, 8, 9], 1], [[1, 2, 5], 1], [[1], 1], [[1], 2], [[1], 3], [[1], 5]];
  for (const [steps, every] of choices) {
    const found = inside(steps, every);
    if (found.length <= most) return found;
  }
  return inside([1], 10);
}

// hooks: click(time), zoom([from, to] or null), toggle(curve)
export class Chart {
  constructor(body, hooks = {}) {
    Object.assign(this, { body, hooks });
    this.legend = element("div", { class: "legend" });
    this.paper = svg("svg", { class: "chart", "aria-hidden": "true" });
    this.tip = element("div", { class: "chart-tip", hidden: "" });
    body.replaceChildren(this.legend, this.paper, this.tip);
    this.wire();
  }

  // spec: {x: {kind, range, title}, panels: [{y: {kind, range, title}, lines: [{x, y, name, tone, dash}]}], bands, rows, points, off}
  show(spec) {
    this.spec = spec;
    this.showLegend();
    if (spec.height) this.body.style.height = `${spec.height}px`;
    const { width } = this.body.getBoundingClientRect();
    const height = this.body.clientHeight - this.legend.offsetHeight;
    if (width < 60 || height < 60) return;
    const left = spec.room ?? ROOM.left;
    this.area = { left, top: ROOM.top, width: width - left - ROOM.right, height: height - ROOM.top - ROOM.bottom };
    this.x = scale(spec.x.kind, spec.x.range, left, left + this.area.width);
    this.paper.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.paper.setAttribute("width", width);
    this.paper.setAttribute("height", height);
    this.paper.replaceChildren(...this.frame(spec));
    this.cursorLine = svg("line", { class: "cursor", y1: ROOM.top, y2: ROOM.top + this.area.height });
    this.selection = svg("rect", { class: "selection", y: ROOM.top, height: this.area.height, width: 0 });
    this.paper.append(this.selection, this.cursorLine);
    this.cursor(this.time);
  }

  showLegend() {
    const { panels = [], off = new Set(), quiet } = this.spec;
    const seen = new Map();
    panels.forEach(({ lines }) => lines.forEach((line) => { if (line.name && !seen.has(line.name)) seen.set(line.name, line); }));
    this.legend.replaceChildren(...(quiet ? [] : [...seen.values()].map((line) => {
      const entry = element("button", { type: "button", class: "entry", "aria-pressed": String(!off.has(line.name)) },
        svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, class: `line tone-${line.tone}`, "stroke-dasharray": DASHES[line.dash ?? "solid"] })), line.name);
      entry.addEventListener("click", () => this.hooks.toggle?.(line.name));
      return entry;
    })));
  }

  frame({ x, panels, bands = [], rows, points, off = new Set() }) {
    const { left, top, width, height } = this.area;
    const made = [];
    const id = `clip-${this.body.id}`;
    made.push(svg("clipPath", { id }, svg("rect", { x: left, y: top - 3, width, height: height + 6 })));
    for (const band of bands) {
      const [from, to] = [this.x.at(Math.max(band.from, this.x.low)), this.x.at(Math.min(band.to, this.x.high))];
      if (!(to > from)) continue;
      made.push(svg("rect", { class: `band band-${band.name}`, x: from, y: top, width: to - from, height }));
      if (band.label && to - from > 7 * band.name.length) made.push(text((from + to) / 2, top + height - 5, band.name, "band-name"));
    }
    for (const value of ticks(this.x, Math.max(3, width / 62))) {
      const at = this.x.at(value);
      made.push(svg("line", { class: "grid", x1: at, x2: at, y1: top, y2: top + height }), text(Math.min(at, left + width - 4), top + height + 14, number(value), "tick"));
    }
    made.push(text(left + width, top + height + 30, x.title, "tick", "end"));
    if (rows) made.push(...this.rows(rows));
    const inside = svg("g", { "clip-path": `url(#${id})` });
    const share = panels ? (height - 14 * (panels.length - 1)) / panels.length : 0;
    this.panels = (panels ?? []).map((panel, i) => {
      const from = top + i * (share + 14);
      const y = scale(panel.y.kind, panel.y.range, from + share, from);
      for (const value of ticks(y, Math.max(2, share / 34))) {
        made.push(svg("line", { class: value === 0 ? "grid zero" : "grid", x1: left, x2: left + width, y1: y.at(value), y2: y.at(value) }), text(left - 5, y.at(value) + 4, number(value).replace("-", "−"), "tick", "end"));
      }
      made.push(svg("text", { transform: `translate(12 ${from + share / 2}) rotate(-90)`, class: "tick", "text-anchor": "middle" }, panel.y.title));
      for (const line of panel.lines) {
        if (off.has(line.name)) continue;
        inside.append(svg("path", { class: `line tone-${line.tone}`, "stroke-dasharray": DASHES[line.dash ?? "solid"], d: this.path(line, y), "data-name": line.name ?? "" }));
      }
      return { ...panel, scale: y };
    });
    if (points) inside.append(...this.points(points));
    made.push(inside);
    return made;
  }

  // The curve, with at most two points for each pixel: the lowest and the highest.
  path({ x, y }, scaleY) {
    let path = "";
    let [column, low, high, last] = [null, 0, 0, 0];
    const flush = () => {
      if (column === null) return;
      path += `${path ? "L" : "M"}${column} ${low.toFixed(1)}`;
      if (high !== low) path += `L${column} ${high.toFixed(1)}L${column} ${last.toFixed(1)}`;
    };
    for (let i = 0; i < x.length; i += 1) {
      if (Number.isNaN(y[i]) || (this.x.kind === "log" && x[i] <= 0)) continue;
      const px = Math.round(2 * this.x.at(x[i])) / 2;
      const py = scaleY.at(y[i]);
      if (px !== column) {
        flush();
        [column, low, high, last] = [px, py, py, py];
      } else {
        [low, high, last] = [Math.min(low, py), Math.max(high, py), py];
      }
    }
    flush();
    return path;
  }

  // Rows of changing states: [{name, runs: [[from, to, mode] …]}], marks [{time, row}], names of equal groups of rows.
  rows({ list, marks = [], groups = [] }) {
    const { left, top, width, height } = this.area;
    const pitch = height / list.length;
    const gap = pitch > 6 ? 1.5 : 0;
    const paths = { off: "", on: "", sliding: "" };
    const made = [];
    list.forEach(({ name, runs }, i) => {
      for (const [from, to, mode] of runs) {
        const a = Math.max(left, this.x.at(Math.max(from, this.x.low)));
        const b = Math.min(left + width, this.x.at(to));
        if (b > a) paths[mode] += `M${a.toFixed(1)} ${(top + i * pitch + gap / 2).toFixed(1)}h${(b - a).toFixed(1)}v${(pitch - gap).toFixed(1)}h${(a - b).toFixed(1)}z`;
      }
      if (pitch >= 9) made.push(text(left - 5, top + (i + 0.5) * pitch + 3.5, name, "tick row-name", "end"));
    });
    groups.forEach((name, i) => made.push(text(left - 5, top + ((i + 0.5) * height) / groups.length, name, "tick", "end")));
    for (const [mode, d] of Object.entries(paths)) if (d) made.push(svg("path", { class: `row row-${mode}`, d }));
    for (const { time, row } of marks) {
      const at = this.x.at(time);
      if (at >= left && at <= left + width) made.push(svg("path", { class: "mark", d: `M${at.toFixed(1)} ${(top + (row + 0.5) * pitch).toFixed(1)}l-3.5 -6h7z` }));
    }
    return made;
  }

  // Points of a plane with the paths they came along: {list: [{path: [[x, y] …], tone, name}], y}
  points({ list, range }) {
    const y = scale("linear", range, this.area.top + this.area.height, this.area.top);
    const made = [svg("line", { class: "boundary", x1: this.x.at(0), x2: this.x.at(0), y1: this.area.top, y2: this.area.top + this.area.height })];
    for (const { path, tone } of list) made.push(svg("path", { class: `trail tone-${tone}`, d: path.map(([a, b], i) => `${i ? "L" : "M"}${this.x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("") }));
    for (const { path, tone, name } of list) {
      const [a, b] = path.at(-1);
      const at = `translate(${this.x.at(a).toFixed(1)} ${y.at(b).toFixed(1)})`;
      const shape = tone === "plus" ? svg("circle", { r: 6, transform: at, class: `point tone-${tone}` }) : svg("path", { d: "M0 -7L7 0L0 7L-7 0z", transform: at, class: `point tone-${tone}` });
      shape.append(svg("title", {}, name));
      made.push(shape);
    }
    return made;
  }

  // Moving the cursor costs one attribute; the curves stay as they are.
  cursor(time) {
    this.time = time;
    if (!this.cursorLine) return;
    const at = time === null || time === undefined ? NaN : this.x.at(Math.max(time, this.x.low));
    const shown = at >= this.area.left - 0.5 && at <= this.area.left + this.area.width + 0.5;
    this.cursorLine.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) this.cursorLine.setAttribute("transform", `translate(${at.toFixed(1)} 0)`);
  }

  wire() {
    let from = null;
    const place = (event) => event.clientX - this.paper.getBoundingClientRect().left;
    const inside = (x) => Math.max(this.area.left, Math.min(this.area.left + this.area.width, x));
    this.paper.addEventListener("pointerdown", (event) => {
      if (!this.area || event.button || !this.hooks.click) return;
      from = inside(place(event));
      if (event.pointerType === "mouse") this.paper.setPointerCapture(event.pointerId);
    });
    this.paper.addEventListener("pointermove", (event) => {
      if (!this.area) return;
      this.hover(place(event));
      if (from === null || event.pointerType !== "mouse") return;
      const to = inside(place(event));
      this.selection.setAttribute("x", Math.min(from, to));
      this.selection.setAttribute("width", Math.abs(to - from));
    });
    this.paper.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = inside(place(event));
      this.selection.setAttribute("width", 0);
      const [a, b] = [Math.min(from, to), Math.max(from, to)].map((x) => this.x.value(x));
      if (Math.abs(to - from) < 5) this.hooks.click(this.x.value(to));
      else if (event.pointerType === "mouse") this.hooks.zoom?.([a, b]);
      from = null;
    });
    this.paper.addEventListener("pointercancel", () => { from = null; });
    this.paper.addEventListener("dblclick", () => this.hooks.zoom?.(null));
    this.paper.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  // The values of every curve under the pointer.
  hover(at) {
    const { left, width } = this.area;
    const lines = (this.panels ?? []).flatMap((panel) => panel.lines).filter((line) => line.name && !this.spec.off?.has(line.name));
    this.tip.hidden = !lines.length || at < left || at > left + width;
    if (this.tip.hidden) return;
    const time = this.x.value(at);
    const rows = lines.map((line) => element("div", {}, `${line.name}  `, element("b", {}, number(line.y[nearest(line.x, time)], 5))));
    this.tip.replaceChildren(element("div", {}, `t = ${number(time, 4)}`), ...rows);
    const room = this.tip.offsetWidth + 14;
    this.tip.style.left = `${at + 14 + room > left + width ? at - room : at + 14}px`;
  }
}

function nearest(x, value) {
  let low = 0;
  let high = x.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= value) low = middle;
    else high = middle;
  }
  return value - x[low] <= x[high] - value ? low : high;
}
