// The network on one sample, as a picture that moves with the time cursor: tokens ask tokens along lines as thick as the attention,
// each head's neuron adds up what is read, and the two neurons decide.

import { put, signed, svg, text, tokenName, write } from "./draw.js";
import { UNDECIDED } from "./trajectory.js";

export const THICKEST = 13; // pixels of a line with all the attention
const TILE = { width: 46, height: 26, pitch: 33 };
const HEADS = [{ name: "head +", tone: "plus" }, { name: "head −", tone: "minus" }];
const GATES = { on: "on", off: "off: silent", sliding: "sliding" };
const NARROW = 520;
const MORPH = 350; // ms in which the picture of one sample becomes that of the next
const DRAGGED = 4; // pixels after which a press is no click any more
const PER_BIAS = 100; // pixels of a drag that change the bias by 1

export class Network {
  // choose(probe): something was clicked whose number over time is wanted; turn(place): a token shall become another;
  // pull(bias, released): a neuron is dragged, null where nothing can be trained again
  constructor(body, { choose, turn, pull }) {
    Object.assign(this, { body, choose, turn, pull, shape: "", worn: "" });
  }

  // linear: the heads have no ReLU
  show(run, index, atom, bias, probe, linear) {
    const width = Math.floor(this.body.clientWidth);
    if (width < 100) return;
    const { features, tokens: { [atom]: tokens } } = run.names;
    this.fit(width, tokens, features);
    this.bias = bias;
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

  // The picture for these tokens: built anew only if it has another shape, so that one sample can become another.
  fit(width, tokens, features) {
    const kinds = tokens.map(([f]) => features[f][0]);
    const shape = JSON.stringify([width, kinds]);
    const worn = JSON.stringify([shape, tokens]);
    if (worn === this.worn) return;
    if (shape !== this.shape) this.build(width, kinds);
    else this.morph();
    Object.assign(this, { shape, worn });
    this.names = tokens.map(([f, sign]) => tokenName(features[f], sign));
    for (const { made, face, place, words } of this.tiles) {
      put(face, { class: `tile tile-${kinds[place]}${tokens[place][1] < 0 ? " tile-minus" : ""}` });
      write(face.lastChild, this.names[place]);
      put(made, { "aria-label": words(this.names[place]) });
      write(made.firstChild, words(this.names[place]));
    }
  }

  // For a moment changes are shown as movements (style.css); not while the clock moves everything anyway.
  morph() {
    this.body.classList.add("morph");
    clearTimeout(this.still);
    this.still = setTimeout(() => this.body.classList.remove("morph"), MORPH);
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

  build(width, kinds) {
    const narrow = width < NARROW;
    const L = kinds.length;
    this.tiles = [];
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
    this.heads = HEADS.map((head, h) => this.panel(sheet, head, h, h * (panel.height + gap), panel, centre, kinds));
    const out = narrow ? { x: width / 2 - 55, y: 2 * panel.height + gap + 12 } : { x: width - 108, y: panel.height + gap / 2 - 46 };
    this.heads.forEach(({ middle, out: wire }, h) => {
      const edge = width - 12 + 8 * h;
      const way = narrow ? `H${edge}V${out.y + 24 + 12 * (1 - h)}H${out.x + 104}` : `C${centre + 46} ${middle} ${out.x - 34} ${out.y + 30} ${out.x} ${out.y + 30}`;
      put(wire, { d: `M${centre + 22} ${middle}${way}` });
    });
    this.output(sheet, out);
    this.body.replaceChildren(sheet);
  }

  panel(sheet, { name, tone }, h, top, panel, centre, kinds) {
    const L = kinds.length;
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
        const line = svg("path", { class: `look tone-${kinds[k]}`, d: `M${from} ${y(q)}C${(from + to) / 2} ${y(q)} ${(from + to) / 2} ${y(k)} ${to} ${y(k)}` }, title);
        lines.push(line);
        titles.push(title);
        sheet.append(line);
      }
    }
    const values = kinds.map((kind, k) => {
      const [asks, key] = [6, this.keys].map((x) => tile(x, y(k), kind));
      const turning = pressable("", () => this.turn(k), asks);
      const looked = this.button(`k${k}`, "", key);
      this.tiles.push({ made: turning, face: asks, place: k, words: (name) => `${name}: click for ${kind === "c" ? "the next identifier" : "the other sign"}` });
      this.tiles.push({ made: looked, face: key, place: k, words: (name) => `${name}: how much it is looked at, over time` });
      sheet.append(turning, looked);
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
    const words = `neuron of ${name}: its input z over time${this.pull ? "; drag it up or down to change the bias" : ""}`;
    sheet.append(this.dragged(this.button(`z${h}`, words, neuron, z)), bias, sum, gate);
    return { lines, titles, values, neuron, z, bias, sum, gate, out, middle };
  }

  output(sheet, { x, y }) {
    this.box = svg("rect", { x, y, width: 104, height: 60, rx: 8, class: "answer" });
    this.said = text(x + 18, y + 42, "", "said");
    this.F = text(x + 66, y + 36, "", "number");
    this.label = text(x + 52, y + 76, "", "number");
    this.margin = text(x + 52, y + 91, "", "hint");
    sheet.append(this.button("m0", "the answer: its margin over time", this.box, this.said, this.F), this.label, this.margin);
  }

  // Something whose number over time a click shows. The same token is a key in both heads: one of them is enough to be told.
  button(probe, words, ...parts) {
    const made = pressable(words, () => this.choose(probe), ...parts);
    put(made, { "data-probe": probe });
    this.buttons[probe] ??= made;
    return made;
  }

  // A neuron that is dragged up or down changes the bias, which both share; pressed without a move it stays a button.
  dragged(made) {
    if (!this.pull) return made;
    let [from, far] = [null, false];
    const follow = (done) => ({ clientY }) => {
      if (!from) return;
      far ||= Math.abs(clientY - from.y) > DRAGGED;
      if (far) this.pull(from.bias + (from.y - clientY) / PER_BIAS, done);
      if (done) from = null;
    };
    made.classList.add("pullable");
    made.addEventListener("pointerdown", (event) => {
      [from, far] = [{ y: event.clientY, bias: this.bias }, false];
      made.setPointerCapture(event.pointerId);
    });
    made.addEventListener("pointermove", follow(false));
    for (const end of ["pointerup", "pointercancel"]) made.addEventListener(end, follow(true));
    made.addEventListener("click", (event) => { if (far) event.stopImmediatePropagation(); }, true);
    return made;
  }
}

// By mouse, finger or keyboard.
function pressable(words, act, ...parts) {
  const made = svg("g", { class: "button-g", role: "button", tabindex: 0, "aria-label": words }, svg("title", {}, words), ...parts);
  made.addEventListener("click", act);
  made.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); act(); }
  });
  return made;
}

function tile(x, y, kind) {
  return svg("g", {}, svg("rect", { x, y: y - TILE.height / 2, width: TILE.width, height: TILE.height, rx: kind === "c" ? 4 : 13 }), text(x + TILE.width / 2, y + 4.5, ""));
}
