// The network on one sample, as a picture that moves with the time cursor: tokens ask tokens along lines as thick as the attention,
// each head's neuron adds up what is read, and the two neurons decide.

import { put, signed, svg, text, tokenName, write } from "./draw.js";
import { UNDECIDED } from "./trajectory.js";

export const THICKEST = 13; // pixels of a line with all the attention
const TILE = { width: 46, height: 26, pitch: 33 };
const HEADS = [{ name: "head +", tone: "plus" }, { name: "head −", tone: "minus" }];
const GATES = { on: "on", off: "off: silent", sliding: "sliding" };
const NARROW = 520;

export class Network {
  // choose(probe): something was clicked whose number over time is wanted
  constructor(body, choose) {
    Object.assign(this, { body, choose, signature: "" });
  }

  // linear: the heads have no ReLU
  show(run, index, atom, bias, probe, linear) {
    const width = Math.floor(this.body.clientWidth);
    if (width < 100) return;
    const tokens = run.names.tokens[atom];
    const signature = JSON.stringify([width, tokens, run.names.features]);
    if (signature !== this.signature) this.build(width, tokens, run.names.features);
    this.signature = signature;
    const P = run.attention(index, atom);
    const L = tokens.length;
    const top = this.largest(run);
    const heard = [0, 1].map((h) => {
      const parts = this.heads[h];
      for (let k = 0; k < L; k += 1) {
        for (let q = 0; q < L; q += 1) {
          const weight = P[(h * L + k) * L + q];
          put(parts.lines[k * L + q], { "stroke-width": (THICKEST * weight).toFixed(3), "data-weight": weight.toFixed(6) });
          write(parts.titles[k * L + q], `${this.names[q]} looks at ${this.names[k]}: ${(100 * weight).toFixed(1)} %`);
        }
        const value = tokens[k][1] * run.at("w", index, h, tokens[k][0]);
        const length = this.room * Math.sqrt(Math.abs(value) / top); // so that small values are seen too
        put(parts.values[k].bar, { x: value < 0 ? this.zero - length : this.zero, width: length.toFixed(2), class: `value tone-${value < 0 ? "minus" : "plus"}` });
        write(parts.values[k].label, signed(value, 1));
      }
      const z = run.at("z", index, h, atom);
      const mode = linear ? "on" : run.mode(index, h, atom);
      const out = linear ? z : Math.max(z, 0);
      put(parts.neuron, { class: `neuron tone-${HEADS[h].tone} neuron-${mode}` });
      write(parts.z, signed(z));
      write(parts.sum, `${z - bias < 0 ? "−" : "+"} read ${signed(Math.abs(z - bias), 2)}`);
      write(parts.bias, `bias ${signed(bias, 2)}`);
      write(parts.gate, linear ? "no ReLU" : GATES[mode]);
      put(parts.out, { "stroke-width": (1 + Math.min(this.thickest, 3 * Math.abs(out))).toFixed(2), class: `wire tone-${HEADS[h].tone}${out ? "" : " wire-off"}` });
      return out;
    });
    this.answer(run, atom, heard[0] - heard[1]);
    for (const [name, parts] of Object.entries(this.buttons)) parts.classList.toggle("chosen", name === probe);
  }

  answer(run, atom, F) {
    const label = run.names.labels[atom];
    const verdict = Math.abs(F) < UNDECIDED ? "undecided" : F * label > 0 ? "right" : "wrong";
    put(this.box, { class: `answer answer-${verdict}` });
    write(this.said, verdict === "undecided" ? "?" : F > 0 ? "+" : "−");
    write(this.F, `F = ${signed(F)}`);
    write(this.label, `label ${label > 0 ? "+" : "−"}: ${verdict}`);
    write(this.margin, `margin ${signed(label * F)}`);
  }

  // The largest value of a token in the whole run, so that bars keep one scale.
  largest(run) {
    if (run.widest?.length !== run.length) {
      const top = run.series.w.data.reduce((most, x) => Math.max(most, Math.abs(x)), 0.5);
      run.widest = { length: run.length, top };
    }
    return run.widest.top;
  }

  build(width, tokens, features) {
    const narrow = width < NARROW;
    const L = tokens.length;
    this.names = tokens.map(([f, sign]) => tokenName(features[f], sign));
    const panel = { width: width - (narrow ? 22 : 118), height: 52 + L * TILE.pitch };
    const gap = 12;
    const height = 2 * panel.height + gap + (narrow ? 112 : 0);
    const sheet = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "network", role: "group", "aria-label": "The network on one sample" });
    this.buttons = {};
    this.thickest = narrow ? 6 : 12;
    this.keys = 6 + TILE.width + (narrow ? 0.25 : 0.34) * (panel.width - 2 * TILE.width);
    this.room = Math.max(15, Math.min(44, 0.065 * panel.width));
    this.zero = this.keys + TILE.width + this.room + 8;
    const centre = panel.width - 44;
    this.heads = HEADS.map((head, h) => this.panel(sheet, head, h, h * (panel.height + gap), panel, centre, { tokens, features }));
    const out = narrow ? { x: width / 2 - 55, y: 2 * panel.height + gap + 12 } : { x: width - 108, y: panel.height + gap / 2 - 46 };
    this.heads.forEach(({ middle, out: wire }, h) => {
      const edge = width - 12 + 8 * h;
      const way = narrow ? `H${edge}V${out.y + 24 + 12 * (1 - h)}H${out.x + 104}` : `C${centre + 46} ${middle} ${out.x - 34} ${out.y + 30} ${out.x} ${out.y + 30}`;
      put(wire, { d: `M${centre + 22} ${middle}${way}` });
    });
    this.output(sheet, out);
    this.body.replaceChildren(sheet);
  }

  panel(sheet, { name, tone }, h, top, panel, centre, { tokens, features }) {
    const L = tokens.length;
    const y = (i) => top + 44 + i * TILE.pitch + TILE.height / 2;
    const middle = y((L - 1) / 2) + 8; // of the neuron; what it adds up stands above it
    const out = svg("path", { class: "wire" });
    sheet.append(svg("rect", { class: "panel", x: 0.5, y: top + 0.5, width: panel.width - 1, height: panel.height - 1, rx: 8 }), out);
    sheet.append(this.button(`w${h}`, `${name}: what it makes of each token, over time`, svg("rect", { class: "hit", x: 6, y: top + 5, width: 64, height: 20, rx: 5 }), text(10, top + 19, name, `head-name tone-${tone}`, "start")));
    sheet.append(text(6 + TILE.width / 2, top + 38, "asks", "hint"), text(this.keys + TILE.width / 2, top + 38, "looked at", "hint"), text(this.zero, top + 38, "is worth", "hint"));
    const lines = [];
    const titles = [];
    for (let k = 0; k < L; k += 1) {
      for (let q = 0; q < L; q += 1) {
        const title = svg("title");
        const [from, to] = [6 + TILE.width, this.keys];
        const line = svg("path", { class: `look tone-${features[tokens[k][0]][0]}`, d: `M${from} ${y(q)}C${(from + to) / 2} ${y(q)} ${(from + to) / 2} ${y(k)} ${to} ${y(k)}` }, title);
        lines.push(line);
        titles.push(title);
        sheet.append(line);
      }
    }
    const values = tokens.map(([f, sign], k) => {
      sheet.append(tile(6, y(k), features[f], sign), this.button(`k${k}`, `${this.names[k]}: how much it is looked at, over time`, tile(this.keys, y(k), features[f], sign)));
      const bar = svg("rect", { class: "value", y: y(k) - 8, height: 16 });
      const label = text(this.zero + this.room + 5, y(k) + 4, "", "number", "start");
      sheet.append(svg("line", { class: "axis", x1: this.zero, x2: this.zero, y1: y(k) - 11, y2: y(k) + 11 }), bar, label);
      return { bar, label };
    });
    const neuron = svg("circle", { cx: centre, cy: middle, r: 22 });
    const z = text(centre, middle + 4, "", "neuron-z");
    const bias = text(centre, middle - 44, "", "hint");
    const sum = text(centre, middle - 30, "", "hint");
    const gate = text(centre, middle + 38, "", "hint gate");
    sheet.append(this.button(`z${h}`, `neuron of ${name}: its input z over time`, neuron, z), bias, sum, gate);
    return { lines, titles, values, neuron, z, bias, sum, gate, out, middle };
  }

  output(sheet, { x, y }) {
    this.box = svg("rect", { x, y, width: 104, height: 60, rx: 8, class: "answer" });
    this.said = text(x + 22, y + 42, "", "said");
    this.F = text(x + 70, y + 36, "", "number");
    this.label = text(x + 52, y + 76, "", "number");
    this.margin = text(x + 52, y + 91, "", "hint");
    sheet.append(this.button("m0", "the answer: its margin over time", this.box, this.said, this.F), this.label, this.margin);
  }

  // Something to click: by mouse, finger or keyboard. The same token is a key in both heads: one of them is enough to be told.
  button(probe, words, ...parts) {
    const made = svg("g", { class: "button-g", role: "button", tabindex: 0, "aria-label": words, "data-probe": probe }, svg("title", {}, words), ...parts);
    made.addEventListener("click", () => this.choose(probe));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); this.choose(probe); }
    });
    this.buttons[probe] ??= made;
    return made;
  }
}

function tile(x, y, feature, sign) {
  const look = `tile tile-${feature[0]}${sign < 0 ? " tile-minus" : ""}`;
  return svg("g", { class: look },
    svg("rect", { x, y: y - TILE.height / 2, width: TILE.width, height: TILE.height, rx: feature[0] === "c" ? 4 : 13 }),
    text(x + TILE.width / 2, y + 4.5, tokenName(feature, sign)));
}
