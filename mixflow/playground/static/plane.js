// Hard samples as points of a plane: along the direction that separates the labels best at the end of the run, and across it.

const ROUNDS = 3000;
const MOST = 48; // points drawn
const TIMES = 400; // states kept

// {list: [{path, label, name}], every}: a path has a point for each kept state, `every` saves apart; null if nothing is listed.
export function plane(run) {
  const { labels, hard, atoms, features } = run.names;
  const classes = features.filter((name) => name[0] === "c").length;
  // For two classes the question is about the hard samples; from three on these alone are separable by voting against the
  // majority, so the direction must answer for all of them.
  const drawn = atoms.flatMap((_, a) => (hard[a] && run.names.weights[a] > 0 ? [a] : []));
  const asked = classes === 2 ? drawn : atoms.map((_, a) => a);
  const shown = drawn.filter((_, i) => i % Math.ceil(drawn.length / MOST) === 0);
  if (!shown.length) return null;
  const end = run.length - 1;
  const normal = separator(asked.map((a) => ({ point: joint(run, end, a), label: labels[a] })));
  const every = Math.ceil(run.length / TIMES);
  const times = Array.from({ length: Math.ceil(run.length / every) }, (_, i) => Math.min(i * every, end));
  if (times.at(-1) !== end) times.push(end);
  const points = shown.map((a) => times.map((t) => joint(run, t, a)));
  const second = widest(points.flat().map((x) => minus(x, normal, dot(x, normal))));
  const list = shown.map((a, i) => ({ name: atoms[a], label: labels[a], path: points[i].map((x) => [dot(x, normal), dot(x, second)]) }));
  return { list, times };
}

// What the two heads see of a sample: its attention-averaged tokens, head − with the other sign.
function joint(run, time, atom) {
  const tokens = run.names.tokens[atom];
  const [L, F] = [tokens.length, run.names.features.length];
  const P = run.attention(time, atom);
  const seen = new Float64Array(2 * F);
  for (let h = 0; h < 2; h += 1) {
    for (let k = 0; k < L; k += 1) {
      let share = 0;
      for (let q = 0; q < L; q += 1) share += P[(h * L + k) * L + q] / L;
      seen[h * F + tokens[k][0]] += (h ? -1 : 1) * tokens[k][1] * share;
    }
  }
  return seen;
}

// The unit normal of the best separating plane through the origin: towards the shortest point of the convex hull of y·x, found
// by moving weight between two points at a time (Mitchell, Dem'yanov, Malozemov).
function separator(samples) {
  const points = samples.map(({ point, label }) => point.map((x) => label * x));
  const weight = points.map(() => 1 / points.length);
  const centre = points[0].map((_, i) => points.reduce((sum, p) => sum + p[i], 0) / points.length);
  for (let round = 0; round < ROUNDS; round += 1) {
    const heights = points.map((p) => dot(p, centre));
    let [low, high] = [0, -1];
    heights.forEach((height, i) => {
      if (height < heights[low]) low = i;
      if (weight[i] > 0 && (high < 0 || height > heights[high])) high = i;
    });
    const apart = points[low].map((x, i) => x - points[high][i]);
    const size = dot(apart, apart);
    if (heights[high] - heights[low] < 1e-12 || size === 0) break;
    const moved = Math.min(weight[high], (heights[high] - heights[low]) / size);
    weight[low] += moved;
    weight[high] -= moved;
    apart.forEach((x, i) => { centre[i] += moved * x; });
  }
  const length = Math.hypot(...centre);
  if (length > 1e-9) return centre.map((x) => x / length);
  return centre.map((_, i) => (i ? 0 : 1));
}

// The direction of largest spread, by power iteration.
function widest(points) {
  let direction = points[0].map((_, i) => Math.sin(i + 1));
  for (let round = 0; round < 60; round += 1) {
    const next = new Float64Array(direction.length);
    for (const x of points) {
      const along = dot(x, direction);
      for (let i = 0; i < x.length; i += 1) next[i] += along * x[i];
    }
    const length = Math.hypot(...next);
    if (length < 1e-12) break;
    direction = next.map((x) => x / length);
  }
  return direction;
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

function minus(a, b, by) {
  return a.map((x, i) => x - by * b[i]);
}
