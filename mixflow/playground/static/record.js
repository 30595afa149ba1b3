// What is kept of a run: everything a view shows, at every save, measured as Python measures it.

import { LOSSES } from "./losses.js";

const TIE = 1e-12; // |y F| below this is undecided: it counts as half

export const LINES = ["A[c_k, v_k]", "A[c_k, v_j]", "A[v_k, c_k]", "A[v_j, c_k]"];

// The saves of a run: densely at first, so that a logarithmic axis is smooth, then every `stride` steps. All strides are
// powers of two, so each save lies on the grid of some save_every.
export function stride(steps) {
  return 2 ** Math.max(0, Math.floor(Math.log2(steps / 600)));
}

export function nextSave(at, steps) {
  const pace = Math.min(stride(steps), 2 ** Math.max(0, Math.floor(Math.log2(Math.max(at, 1) / 128))));
  return Math.min(at + pace - (at % pace), steps);
}

// A system of engine.js and its task (null where samples cannot be listed: then their types are) -> rows.
export class Recorder {
  constructor(system, task) {
    this.system = system;
    this.task = task;
    this.symmetric = "K" in system;
    this.of = task && this.symmetric ? task.atoms.map((atom) => typeOf(atom, system.K)) : null;
    const { weight, hard } = this.samples();
    this.parts = { loss: weight, loss_easy: weight.map((x, i) => (hard[i] ? 0 : x)), loss_hard: weight.map((x, i) => (hard[i] ? x : 0)) };
    this.totals = Object.fromEntries(Object.entries(this.parts).map(([name, part]) => [name, part.reduce((a, b) => a + b, 0)]));
    this.clear();
  }

  clear() {
    this.rows = { time: [], loss: [], loss_easy: [], loss_hard: [], accuracy: [], scores: [], margin: [], z: [] };
    if (this.task) Object.assign(this.rows, { w: [], A: [] });
    if (this.symmetric) Object.assign(this.rows, { A_sector: [], w_kind: [] });
  }

  // Labels, weights and hardness of the samples, or of their types.
  samples() {
    if (this.task) return { names: this.task.atoms.map((a) => a.name), label: this.task.atoms.map((a) => a.label), weight: this.task.atoms.map((a) => a.weight), hard: this.task.atoms.map((a) => a.hard) };
    const { K, chance } = this.system;
    const types = [1, -1].flatMap((y) => Array.from({ length: K }, (_, n) => ({ y, n })));
    return {
      names: types.map(({ y, n }) => `y=${y > 0 ? "+" : "-"} n=${n}`), label: types.map(({ y }) => y),
      weight: types.map(({ n }) => chance[n] / 2), hard: types.map(({ y, n }) => y * (y + 2 * n - (K - 1)) <= 0),
    };
  }

  names() {
    const { names, label, hard, weight } = this.samples();
    return {
      features: this.task ? this.task.features : null, atoms: names, listed: Boolean(this.task), labels: label, hard, weights: weight, lines: LINES,
      tokens: this.task ? this.task.atoms.map(({ tokens }) => tokens) : null, least: this.task?.least ?? 0,
    };
  }

  // Record the present state; false if it has left the numbers.
  save(time) {
    const { system, rows, parts, totals } = this;
    system.look();
    const margin = this.of ? this.of.map((t) => system.margin[t]) : system.margin;
    const each = Array.from(margin, (this.task?.loss ?? LOSSES.logistic).of);
    const mean = (values, name) => (totals[name] ? values.reduce((sum, x, i) => sum + x * parts[name][i], 0) / totals[name] : NaN);
    const loss = mean(each, "loss");
    if (!Number.isFinite(loss) || !system.A.every(Number.isFinite)) return false;
    rows.time.push(time);
    for (const name of ["loss", "loss_easy", "loss_hard"]) rows[name].push(mean(each, name));
    rows.accuracy.push(1 - mean(Array.from(margin, (m) => (Math.abs(m) <= TIE ? 0.5 : m > 0 ? 0 : 1)), "loss"));
    rows.margin.push(margin);
    rows.z.push(this.of ? [0, 1].flatMap((h) => this.of.map((t) => system.z[2 * system.K * h + t])) : system.z);
    if (this.symmetric) {
      const e = system.scores;
      const [c, v] = system.w;
      rows.scores.push([e[1], e[5], e[2], e[6]]);
      rows.A_sector.push(system.A.slice());
      rows.w_kind.push([c, v, c, -v]);
      if (this.task) this.expand(e, c, v);
    } else {
      rows.scores.push(pairScores(system.A, system.F, this.task.features));
      rows.w.push(system.w.slice());
      rows.A.push(system.A.slice());
    }
    if (!this.of) { rows.margin.push(rows.margin.pop().slice()); rows.z.push(rows.z.pop().slice()); }
    return true;
  }

  // Both heads between all features, from own and other entries: head − is head + with every v turned round.
  expand(e, c, v) {
    const { K } = this.system;
    const kind = (f) => (f < K ? 0 : 1);
    const index = Array.from({ length: 2 * K }, (_, f) => f);
    const entry = (i, j) => e[(i % K === j % K ? 0 : 4) + 2 * kind(i) + kind(j)];
    const turned = (i, j) => (kind(i) === kind(j) ? 1 : -1);
    this.rows.w.push([0, 1].flatMap((h) => index.map((f) => (kind(f) ? (h ? -v : v) : c))));
    this.rows.A.push([0, 1].flatMap((h) => index.flatMap((i) => index.map((j) => (h ? turned(i, j) : 1) * entry(i, j)))));
  }

  // The rows since the last call as {name: {shape, data}}.
  take() {
    const { rows, system } = this;
    const count = rows.time.length;
    const F = this.task ? this.task.features.length : 0;
    const shapes = { scores: [4], margin: [this.parts.loss.length], z: [2, this.parts.loss.length], w: [2, F], A: [2, F, F], A_sector: [2, 2, 2], w_kind: [2, 2] };
    const arrays = {};
    for (const [name, values] of Object.entries(rows)) {
      const shape = shapes[name] ?? [];
      const size = shape.reduce((a, b) => a * b, 1);
      const data = new Float64Array(count * size);
      values.forEach((value, i) => (size === 1 && !shape.length ? (data[i] = value) : data.set(value, i * size)));
      arrays[name] = { shape: [count, ...shape], data };
    }
    this.clear();
    return arrays;
  }
}

// The place of a sample among the 2K types: its label, and how many of the other signals are +.
function typeOf({ tokens, label }, K) {
  const plus = tokens.filter(([f, sign]) => f >= K && sign > 0).length - (label > 0 ? 1 : 0);
  return (label > 0 ? 0 : K) + plus;
}

// Mean scores of head + between identifiers and signals, own and other, as LINES names them.
function pairScores(A, F, features) {
  const K = features.filter((name) => name[0] === "c").length;
  const sums = [0, 0, 0, 0];
  for (let k = 0; k < K; k += 1) {
    for (let j = 0; j < K; j += 1) {
      const other = j === k ? 0 : 1;
      const share = other ? K * (K - 1) : K;
      sums[other] += A[k * F + K + j] / share;
      sums[2 + other] += A[(K + j) * F + k] / share;
    }
  }
  return sums;
}
