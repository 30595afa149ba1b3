// The stages of a run, read from its series alone, by the rules of mixflow/measure/stages.py.

const MOVED = 1; // a score that moves by 1 changes the odds between two tokens by the factor e
const LEARNED = 0.5; // of the easy loss, where attention moved first
const FALL = 4; // the loss must fall by this factor after T2 …
const STALLED = 2; // … and no slower than t^(−1/2)

// series: {name: {shape, data}}; names.least is the least possible loss; switches: the two times between three stages, or null.
export function stages(series, { least }, switches) {
  const time = series.time.data;
  const end = time.at(-1);
  const above = (name) => series[name].data.map((x) => Math.max(x - least, least ? 1e-12 : 0));
  const [loss, easy, hard] = ["loss", "loss_easy", "loss_hard"].map(above);
  const stage = (name, from, to) => ({ name, found: true, start: from, end: to });
  if (time.length < 2) return [];
  const converging = (T2) => (T2 !== null && converges(time, loss, T2) ? [stage("convergence", T2, end)] : []);
  if (switches) {
    const [T1, T2] = switches.map((t) => Math.min(t, end));
    return [stage("neurons", 0, T1), stage("attention", T1, T2), ...converging(T2)].filter((s) => s.end > s.start);
  }
  const off = switchOff(time, series.z);
  const moved = scoreMoved(time, series.A ?? series.A_sector);
  const early = moved !== null && (off === null || moved < off);
  const T1 = early ? moved : off;
  if (T1 === null) return [stage("neurons", 0, end)];
  const left = at(time, easy, T1) / easy[0];
  const first = (early && !(left <= LEARNED)) || T1 <= 0 ? [] : [stage("neurons", 0, T1)];
  const begin = first.length ? T1 : 0;
  let plateau = 0;
  for (let i = 0; i < time.length; i += 1) if (time[i] >= begin) plateau = Math.max(plateau, hard[i]);
  const T2 = fallsTo(time, hard, plateau / 2);
  if (T2 === null || T2 <= begin) return [...first, stage("attention", begin, end)];
  return [...first, stage("attention", begin, T2), ...converging(T2)];
}

// When the first neuron switches off, between saves; null if none does.
function switchOff(time, { shape, data }) {
  const width = shape.slice(1).reduce((a, b) => a * b, 1);
  for (let i = 0; i < time.length; i += 1) {
    let when = null;
    for (let j = 0; j < width; j += 1) {
      const z = data[i * width + j];
      if (z > 0) continue;
      if (i === 0) return 0;
      const before = data[(i - 1) * width + j];
      const t = time[i - 1] + ((time[i] - time[i - 1]) * before) / (before - z);
      when = when === null ? t : Math.min(when, t);
    }
    if (when !== null) return when;
  }
  return null;
}

function scoreMoved(time, { shape, data }) {
  const width = shape.slice(1).reduce((a, b) => a * b, 1);
  let before = 0;
  for (let i = 1; i < time.length; i += 1) {
    let change = 0;
    for (let j = 0; j < width; j += 1) change = Math.max(change, Math.abs(data[i * width + j] - data[j]));
    if (change > MOVED) return time[i - 1] + ((time[i] - time[i - 1]) * (MOVED - before)) / (change - before);
    before = change;
  }
  return null;
}

// When the series falls to the level for good; null if it ends above it.
function fallsTo(time, series, level) {
  let i = series.length - 1;
  while (i >= 0 && !(series[i] > level)) i -= 1;
  if (i < 0) return time[0];
  if (i + 1 >= time.length) return null;
  const [high, low] = [Math.log(series[i] / level), Math.log(Math.max(series[i + 1], 1e-300) / level)];
  return time[i] + ((time[i + 1] - time[i]) * high) / (high - low);
}

function at(time, series, t) {
  let i = 1;
  while (i < time.length - 1 && time[i] < t) i += 1;
  return series[i - 1] + ((series[i] - series[i - 1]) * (t - time[i - 1])) / (time[i] - time[i - 1]);
}

// Whether the loss goes on falling after T2: by enough, and its halving times do not grow too fast.
function converges(time, loss, T2) {
  const low = loss.slice();
  for (let i = 1; i < low.length; i += 1) low[i] = Math.min(low[i], low[i - 1]);
  const [top, end] = [at(time, low, T2), Math.max(low.at(-1), 1e-300)];
  if (top / end < FALL) return false;
  const count = Math.floor(2 * Math.log2(top / end)) + 1;
  const levels = Array.from({ length: count }, (_, i) => top * 2 ** (-i / 2));
  const crossing = levels.map((level, i) => (i ? fallsTo(time, low, level) : T2));
  const late = Math.min(count >> 1, count - 5);
  const x = [];
  const y = [];
  for (let i = Math.max(late, 0) + 1; i < count; i += 1) {
    x.push(-Math.log(levels[i]));
    y.push(Math.log(Math.max(crossing[i] - crossing[i - 1], 1e-12 * time.at(-1))));
  }
  return slope(x, y) <= STALLED;
}

function slope(x, y) {
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const [mx, my] = [mean(x), mean(y)];
  return x.reduce((sum, v, i) => sum + (v - mx) * (y[i] - my), 0) / x.reduce((sum, v) => sum + (v - mx) ** 2, 0);
}
