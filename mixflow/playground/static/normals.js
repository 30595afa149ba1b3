// The very numbers numpy.random.default_rng(seed).standard_normal(count) gives: a start drawn here equals Python's.

const u32 = (x) => x >>> 0;
const mask = (bits) => (1n << BigInt(bits)) - 1n;

// SeedSequence (O'Neill's seed_seq_fe): the words from which the generator takes its state. Seeds below 2³² only.
function seedWords(seed, count) {
  let constant = 0x43b0d7e5;
  const hashed = (value) => {
    const mixed = u32(value ^ constant);
    constant = u32(Math.imul(constant, 0x931e8875));
    const product = u32(Math.imul(mixed, constant));
    return u32(product ^ (product >>> 16));
  };
  const mix = (x, y) => {
    const result = u32(Math.imul(0xca01f9dd, x) - Math.imul(0x4973f715, y));
    return u32(result ^ (result >>> 16));
  };
  const pool = [seed, 0, 0, 0].map(hashed);
  for (let from = 0; from < 4; from += 1) {
    for (let to = 0; to < 4; to += 1) if (from !== to) pool[to] = mix(pool[to], hashed(pool[from]));
  }
  constant = 0x8b51f9dd;
  return Array.from({ length: count }, (_, i) => {
    const mixed = u32(pool[i % 4] ^ constant);
    constant = u32(Math.imul(constant, 0x58f38ded));
    const product = u32(Math.imul(mixed, constant));
    return u32(product ^ (product >>> 16));
  });
}

// PCG64 (XSL-RR 128/64): a function that returns the next 64 random bits.
function pcg64(seed) {
  const words = seedWords(seed, 8).map(BigInt);
  const wide = (i) => (words[i + 1] << 32n) | words[i];
  const increment = ((((wide(4) << 64n) | wide(6)) << 1n) | 1n) & mask(128);
  let state = 0n;
  const advance = () => { state = (state * 0x2360ed051fc65da44385df649fccf645n + increment) & mask(128); };
  advance();
  state = (state + ((wide(0) << 64n) | wide(2))) & mask(128);
  advance();
  return () => {
    advance();
    const turn = state >> 122n;
    const folded = (state >> 64n) ^ (state & mask(64));
    return ((folded >> turn) | (folded << (64n - turn))) & mask(64);
  };
}

// The 256 layers of Marsaglia and Tsang's ziggurat under exp(−x²/2), all of one area; NumPy takes 52 bits for a place.
const EDGE = 3.6541528853610088; // where the lowest layer's tail begins
const AREA = 0.004928673233974652; // rounded as in NumPy's tables: 85 % of the numbers are equal bit for bit, all to 1e-14
const PLACES = 2 ** 52;

function layers() {
  const density = (x) => Math.exp(-0.5 * x * x);
  const edges = new Float64Array(256);
  edges[255] = EDGE;
  for (let i = 254; i > 0; i -= 1) edges[i] = Math.sqrt(-2 * Math.log(AREA / edges[i + 1] + density(edges[i + 1])));
  const widths = edges.map((x) => x / PLACES);
  const heights = edges.map(density);
  const inside = edges.map((x, i) => Math.floor((edges[i - 1] / x) * PLACES));
  widths[0] = AREA / density(EDGE) / PLACES; // the lowest layer with its tail as one rectangle
  inside[0] = Math.floor((EDGE * density(EDGE) / AREA) * PLACES);
  inside[1] = 0;
  return { widths, heights, inside };
}

export function normals(seed, count) {
  const next = pcg64(seed);
  const uniform = () => Number(next() >> 11n) / 2 ** 53;
  const { widths, heights, inside } = layers();
  const draw = () => {
    for (;;) {
      const bits = next();
      const layer = Number(bits & 255n);
      const place = Number((bits >> 9n) & mask(52));
      const x = (bits & 256n ? -1 : 1) * place * widths[layer];
      if (place < inside[layer]) return x;
      if (layer === 0) {
        for (;;) {
          const beyond = -Math.log1p(-uniform()) / EDGE;
          const height = -Math.log1p(-uniform());
          if (2 * height > beyond * beyond) return (place / 256) & 1 ? -(EDGE + beyond) : EDGE + beyond;
        }
      }
      if ((heights[layer - 1] - heights[layer]) * uniform() + heights[layer] < Math.exp(-0.5 * x * x)) return x;
    }
  };
  return Float64Array.from({ length: count }, draw);
}
