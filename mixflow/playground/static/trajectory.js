// A run as it arrives: arrays with time first, growing chunk by chunk.

export class Trajectory {
  constructor(start) {
    this.key = start.key;
    this.until = start.until;
    this.still = start.until === 0; // written down, not trained: one state and no time
    this.model = start.model;
    this.done = false;
    this.frames = 0; // of saves, so far
    this.stages = [];
    this.events = [];
    this.series = {};
    this.views = {}; // geometry and samples, asked for when the run is done
  }

  append(header, arrays, replace = false) {
    this.frames += 1;
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
    if (arrays.all_modes) this.series.mode = arrays.all_modes;
    Object.assign(this, { done: true, stages: header.stages, events: header.events, warning: header.warning });
    Object.assign(this, { seconds: header.seconds, engineSeconds: header.wall_time, certificate: header.certificate });
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

  // One number over time: series(name, i, j) is entry [i, j] of every save.
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
