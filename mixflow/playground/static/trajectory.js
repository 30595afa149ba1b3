// A run as it arrives: arrays with time first, growing chunk by chunk.

const MODES = ["off", "on", "sliding"];
export const UNDECIDED = 0.01; // an answer this near to 0 is none

export class Trajectory {
  constructor(start) {
    this.key = start.key;
    this.until = start.until;
    this.still = start.until === 0; // written down, not trained: one state and no time
    this.model = start.model;
    this.local = Boolean(start.local);
    this.done = false;
    this.stages = [];
    this.events = [];
    this.series = {};
  }

  append(header, arrays, replace = false) {
    if (header.names) this.names = header.names;
    if (replace) this.series = {};
    for (const [name, { shape, data }] of Object.entries(arrays)) {
      if (name === "all_modes") continue;
      const before = this.series[name];
      this.series[name] = before
        ? { shape: [before.shape[0] + shape[0], ...shape.slice(1)], data: joined(before.data, data) }
        : { shape, data };
    }
  }

  finish(header, arrays) {
    this.append(header, arrays, header.replace);
    if (arrays.all_modes) this.modes = arrays.all_modes;
    const { stages, events, warning, seconds, proof } = header;
    Object.assign(this, { done: true, stages, events, warning, seconds, proof });
  }

  get length() {
    return this.series.time ? this.series.time.shape[0] : 0;
  }

  get times() {
    return this.series.time ? this.series.time.data : [];
  }

  has(name) {
    return name in this.series;
  }

  // One number over time: line(name, i, j) is entry [i, j] of every save.
  line(name, ...index) {
    const { shape, data } = this.series[name];
    const [stride, offset] = flat(shape, index);
    if (stride === 1) return data;
    return Float64Array.from({ length: shape[0] }, (_, at) => data[at * stride + offset]);
  }

  at(name, time, ...index) {
    const { shape, data } = this.series[name];
    const [stride, offset] = flat(shape, index);
    return data[time * stride + offset];
  }

  // "off", "on" or "sliding": a flow's events tell which neurons slide.
  mode(time, h, atom) {
    if (!this.modes) return this.at("z", time, h, atom) > 0 ? "on" : "off";
    const [, , n] = this.modes.shape;
    return MODES[this.modes.data[(time * 2 + h) * n + atom]];
  }

  // "right", "wrong" or "undecided": what the network says of a sample.
  verdict(time, atom) {
    const margin = this.at("margin", time, atom);
    return Math.abs(margin) < UNDECIDED ? "undecided" : margin > 0 ? "right" : "wrong";
  }

  // The share of samples that are answered rightly.
  right(time) {
    const { weights } = this.names;
    const sum = weights.reduce((total, weight, atom) => total + (this.verdict(time, atom) === "right" ? weight : 0), 0);
    return sum / weights.reduce((a, b) => a + b, 0);
  }

  // Attention inside one sample: (2, key, query) flat; the softmax over keys of the scores of its tokens.
  attention(time, atom) {
    const tokens = this.names.tokens[atom];
    const [L, F] = [tokens.length, this.names.features.length];
    const P = new Float64Array(2 * L * L);
    const A = this.series.A.data;
    for (let h = 0; h < 2; h += 1) {
      for (let q = 0; q < L; q += 1) {
        const score = (k) => tokens[k][1] * tokens[q][1] * A[((time * 2 + h) * F + tokens[k][0]) * F + tokens[q][0]];
        let [top, total] = [-Infinity, 0];
        for (let k = 0; k < L; k += 1) top = Math.max(top, score(k));
        for (let k = 0; k < L; k += 1) total += P[(h * L + k) * L + q] = Math.exp(score(k) - top);
        for (let k = 0; k < L; k += 1) P[(h * L + k) * L + q] /= total;
      }
    }
    return P;
  }

  // The save nearest to a time; null is the end.
  nearest(time) {
    const times = this.times;
    if (time === null || !times.length) return this.length - 1;
    let low = 0;
    let high = times.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle;
      else high = middle;
    }
    return time - times[low] <= times[high] - time ? low : high;
  }

  stage(name) {
    return this.stages.find((stage) => stage.found && stage.name === name);
  }

  stageAt(time) {
    return this.stages.find((stage) => stage.found && time >= stage.start && time <= stage.end);
  }
}

function flat(shape, index) {
  let stride = 1;
  let offset = 0;
  for (let axis = shape.length - 1; axis > 0; axis -= 1) {
    offset += (index[axis - 1] ?? 0) * stride;
    stride *= shape[axis];
  }
  return [stride, offset];
}

function joined(a, b) {
  const both = new a.constructor(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
