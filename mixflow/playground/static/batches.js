// The very minibatches that mixflow/engines/minibatch.py draws: JAX's generator (Threefry-2×32, 20 rounds) and its choice of atoms.

const TURNS = [[13, 15, 26, 6], [17, 29, 16, 24]];

// Two words encrypted under a key of two words (Salmon et al. 2011), into `out`.
function threefry(key0, key1, x0, x1, out) {
  const keys = [key0, key1, key0 ^ key1 ^ 0x1bd11bda];
  let a = (x0 + key0) | 0;
  let b = (x1 + key1) | 0;
  for (let round = 0; round < 5; round += 1) {
    for (const turn of TURNS[round % 2]) {
      a = (a + b) | 0;
      b = ((b << turn) | (b >>> (32 - turn))) ^ a;
    }
    a = (a + keys[(round + 1) % 3]) | 0;
    b = (b + keys[(round + 2) % 3] + round + 1) | 0;
  }
  out[0] = a;
  out[1] = b;
}

// Returns draw(step, weight): fills `weight` with the frequency of every atom among the `size` drawn for that step.
export function minibatches(probabilities, size, seed) {
  const n = probabilities.length;
  const [key, bits] = [new Uint32Array(2), new Uint32Array(2)];
  return (step, weight) => {
    threefry(0, seed, 0, step, key); // the step is folded into the key
    weight.fill(0);
    for (let i = 0; i < size; i += 1) {
      let [chosen, least] = [0, Infinity];
      for (let a = 0; a < n; a += 1) {
        threefry(key[0], key[1], 0, i * n + a, bits);
        const uniform = (bits[0] * 2 ** 20 + (bits[1] >>> 12)) / 2 ** 52;
        const wait = -Math.log(uniform) / probabilities[a]; // first of n clocks = JAX's largest log p + Gumbel number
        if (wait < least) [chosen, least] = [a, wait];
      }
      weight[chosen] += 1 / size;
    }
  };
}
