// Gradient descent, exactly, in plain JavaScript: the Gram reduction of any listed task at any width, and the 22 numbers of
// the mean-field mixture for any K. The equations are those of docs/mathematics.md §3, §4 and §8.

import { normals } from "./normals.js";

const HEAD = [1, -1]; // the signs with which the heads enter the answer

// The Gram state of a listed task: w (2, F), A, G_K, G_Q (2, F, F), each a flat array; index (h·F + key)·F + query.
export class Gram {
  // network: "paper", or what differs from it: "shared" (one attention for both heads), "direct" (A itself is trained), "linear" (no ReLU), "sum" (queries are added up, not averaged)
  constructor(task, { network, width, omega, bias, seed, tie_values: tied }) {
    const F = task.features.length;
    Object.assign(this, { task, F, bias, tied, shared: network === "shared", direct: network === "direct", linear: network === "linear" });
    this.gram = this.entries(1, task.coherence);
    this.w = new Float64Array(2 * F);
    if (width === "inf") {
      this.A = new Float64Array(2 * F * F);
      this.GK = Float64Array.from({ length: 2 * F * F }, (_, i) => omega * omega * this.gram[i % (F * F)]);
      this.GQ = this.GK.slice();
    } else {
      this.drawn(Number(width), omega, seed);
    }
    this.tokens = task.atoms.map(({ tokens }) => ({ feature: tokens.map(([f]) => f), sign: tokens.map(([, s]) => s), length: tokens.length, share: network === "sum" ? 1 : tokens.length }));
    const total = this.tokens.reduce((sum, { length }) => sum + length, 0);
    const pairs = this.tokens.reduce((sum, { length }) => sum + length * length, 0);
    this.P = new Float64Array(2 * pairs); // attention of every query (fast) to every key, atom after atom, head after head
    this.read = new Float64Array(2 * total); // what each query reads
    this.z = new Float64Array(2 * task.atoms.length);
    this.margin = new Float64Array(task.atoms.length);
    this.weight = Float64Array.from(task.atoms, ({ weight }) => weight); // of every atom in the gradient; a minibatch changes it
    this.gw = new Float64Array(2 * F);
    this.g = new Float64Array(2 * F * F);
    this.e = new Float64Array(2 * F * F);
    this.update = updater(F, task.coherence ? this.gram : null);
  }

  // F×F with one number on the diagonal and another off it: Γ, and its square root, whose columns are the features.
  entries(on, off) {
    return Float64Array.from({ length: this.F * this.F }, (_, i) => (i % (this.F + 1) === 0 ? on : off));
  }

  // The seeded start: W_K, W_Q with entries N(0, ω²/m), seen through the features.
  drawn(m, omega, seed) {
    const { F, task: { coherence } } = this;
    const across = Math.sqrt(1 - coherence);
    const off = (Math.sqrt(1 + (F - 1) * coherence) - across) / F;
    const root = coherence ? this.entries(across + off, off) : null;
    const drawn = this.shared ? 1 : 2; // attentions
    const numbers = normals(seed, 2 * drawn * m * F).map((x) => (omega / Math.sqrt(m)) * x);
    const rows = (side, h) => {
      const place = drawn * side + (h % drawn);
      const W = numbers.subarray(place * m * F, (place + 1) * m * F);
      return root ? product(W, root, m, F) : W;
    };
    const [A, GK, GQ] = [0, 1, 2].map(() => new Float64Array(2 * F * F));
    for (const h of [0, 1]) {
      const [K, Q] = [rows(0, h), rows(1, h)];
      for (const [into, left, right] of [[A, K, Q], [GK, K, K], [GQ, Q, Q]]) {
        for (let row = 0; row < m; row += 1) {
          for (let i = 0; i < F; i += 1) for (let j = 0; j < F; j += 1) into[(h * F + i) * F + j] += left[row * F + i] * right[row * F + j];
        }
      }
    }
    Object.assign(this, { A, GK, GQ });
  }

  // z, margin, P and read of the present state.
  look() {
    const { F, A, e, w, P, read, z, tokens, task: { atoms } } = this;
    for (let i = 0; i < e.length; i += 1) e[i] = Math.exp(A[i]);
    let at = 0;
    let place = 0;
    for (let h = 0; h < 2; h += 1) {
      for (let a = 0; a < atoms.length; a += 1) {
        const { feature, sign, length: L, share } = tokens[a];
        let sum = 0;
        for (let q = 0; q < L; q += 1) {
          let total = 0;
          let heard = 0;
          for (let k = 0; k < L; k += 1) {
            const score = e[(h * F + feature[k]) * F + feature[q]];
            const weight = sign[k] * sign[q] > 0 ? score : 1 / score;
            P[at + k * L + q] = weight;
            total += weight;
            heard += weight * sign[k] * w[h * F + feature[k]];
          }
          for (let k = 0; k < L; k += 1) P[at + k * L + q] /= total;
          read[place + q] = heard / total;
          sum += heard / total;
        }
        z[h * atoms.length + a] = this.bias + sum / share;
        at += L * L;
        place += L;
      }
    }
    for (let a = 0; a < atoms.length; a += 1) {
      this.margin[a] = atoms[a].label * (this.on(z[a]) - this.on(z[atoms.length + a]));
    }
  }

  on(z) {
    return this.linear ? z : Math.max(z, 0);
  }

  // ∂loss/∂w and ∂loss/∂A at the present state, into gw and g.
  gradient() {
    this.look();
    const { F, w, P, read, z, margin, weight, gw, g, tokens, task: { atoms, loss } } = this;
    gw.fill(0);
    g.fill(0);
    let at = 0;
    let place = 0;
    for (let h = 0; h < 2; h += 1) {
      for (let a = 0; a < atoms.length; a += 1) {
        const { feature, sign, length: L, share } = tokens[a];
        if (this.linear || z[h * atoms.length + a] > 0) {
          const slope = (-HEAD[h] * atoms[a].label * weight[a] * loss.push(margin[a])) / share;
          for (let k = 0; k < L; k += 1) {
            const row = h * F + feature[k];
            const value = sign[k] * w[row];
            let looked = 0;
            for (let q = 0; q < L; q += 1) {
              const p = P[at + k * L + q];
              looked += p;
              g[row * F + feature[q]] += sign[k] * sign[q] * slope * p * (value - read[place + q]);
            }
            gw[row] += sign[k] * slope * looked;
          }
        }
        at += L * L;
        place += L;
      }
    }
    if (this.tied) for (let f = 0; f < F; f += 1) gw[F + f] = -(gw[f] = gw[f] - gw[F + f]);
    if (this.shared) for (let i = 0; i < F * F; i += 1) g[F * F + i] = g[i] += g[F * F + i];
  }

  // One step with these learning rates; 0 freezes that part.
  step(etaW, etaA) {
    this.gradient();
    const { F, gram, task: { coherence } } = this;
    for (let h = 0; h < 2; h += 1) {
      const part = (X) => X.subarray(h * F * F, (h + 1) * F * F);
      const gw = this.gw.subarray(h * F, (h + 1) * F);
      const push = coherence ? product(gw, gram, 1, F) : gw;
      for (let f = 0; f < F; f += 1) this.w[h * F + f] -= etaW * push[f];
      if (!etaA) continue;
      const h_A = part(this.g);
      for (let i = 0; i < F * F; i += 1) h_A[i] *= etaA;
      if (this.direct) {
        const moved = coherence ? product(product(gram, h_A, F, F), gram, F, F) : h_A;
        part(this.A).forEach((_, i, A) => { A[i] -= moved[i]; });
        continue;
      }
      this.update(part(this.A), part(this.GK), part(this.GQ), h_A);
    }
  }
}

// (m, F) · (F, F), into `out`
function product(X, Y, m, F, out = new Float64Array(m * F)) {
  for (let i = 0; i < m; i += 1) {
    for (let j = 0; j < F; j += 1) {
      let sum = 0;
      for (let k = 0; k < F; k += 1) sum += X[i * F + k] * Y[k * F + j];
      out[i * F + j] = sum;
    }
  }
  return out;
}

function transposed(X, F, out) {
  for (let i = 0; i < F; i += 1) for (let j = 0; j < F; j += 1) out[j * F + i] = X[i * F + j];
  return out;
}

// The step of A, G_K and G_Q in place (docs/mathematics.md §3 and §8): with h = η g, (W_K − W_Q hᵀ)ᵀ (W_Q − W_K h) multiplied
// out, and its two companions. Returns update(A, GK, GQ, h), which keeps its own scratch.
function updater(F, gram) {
  const scratch = Array.from({ length: 12 }, () => new Float64Array(F * F));
  return (A, GK, GQ, h) => {
    const [At, Pt, Qt, PA, AQ, GKQ, PGQ, a, k, q, Γh, hΓ] = scratch;
    const times = (X, Y, out) => product(X, Y, F, F, out);
    const [P, Q] = gram ? [times(gram, h, Γh), times(h, gram, hΓ)] : [h, h];
    transposed(A, F, At);
    times(P, At, PA);
    times(At, Q, AQ);
    times(GK, Q, GKQ);
    times(P, GQ, PGQ);
    times(PA, Q, a);
    times(PGQ, transposed(P, F, Pt), k);
    times(transposed(Q, F, Qt), GKQ, q);
    for (let i = 0; i < F; i += 1) {
      for (let j = 0; j < F; j += 1) {
        const [ij, ji] = [i * F + j, j * F + i];
        A[ij] += a[ij] - (GKQ[ij] + PGQ[ij]);
        GK[ij] += k[ij] - (PA[ij] + PA[ji]);
        GQ[ij] += q[ij] - (AQ[ij] + AQ[ji]);
      }
    }
  };
}

// The mean-field mixture in 22 numbers: w (c, v) and, in the common (0) and the contrast sector (1), A, G_K, G_Q over (c, v).
export class Symmetric {
  constructor(K, { omega, bias, tie_values: tied }) {
    Object.assign(this, { K, bias, tied });
    this.w = new Float64Array(2);
    this.A = new Float64Array(8);
    this.GK = Float64Array.of(1, 0, 0, 1, 1, 0, 0, 1).map((x) => omega * omega * x);
    this.GQ = this.GK.slice();
    this.chance = binomial(K);
    this.askers = [1, -1].map((y) => Array.from({ length: K }, (_, n) => queries(y, n, K - 1 - n)));
    this.update = updater(2, null);
    this.parts = [0, 1].map((s) => [this.A, this.GK, this.GQ].map((X) => X.subarray(4 * s, 4 * s + 4)));
    this.h = new Float64Array(4);
    this.e = new Float64Array(16); // exponentials of the scores (0–7) and their inverses (8–15)
    this.entry = new Float64Array(16); // ∂/∂ of the scores, from keys that have them with sign + (0–7) and with sign − (8–15)
    this.gw = new Float64Array(2);
  }

  // The weights of docs/mathematics.md §9, with this margin on every sample: identifiers are worth β and look at themselves (C), unless
  // their own signal outbids them (∓B).
  construct(margin) {
    const { K } = this;
    const C = Math.log(K) + 3;
    const B = 2 * C;
    const share = (b) => Math.exp(C) / (Math.exp(C) + Math.exp(b) + K - 1);
    this.w[0] = (margin * (K + 1)) / (share(-B) - share(B));
    [0, 4].forEach((sector) => { this.A[sector] = C; this.A[sector + 2] = -B; });
  }

  // Own entries A[x_k, y_k] (0–3) and others A[x_k, y_j] (4–7) between features: cc, cv, vc, vv each.
  get scores() {
    return Float64Array.from({ length: 8 }, (_, i) => this.score(i));
  }

  score(i) {
    return (i < 4 ? this.A[4 + i] : 0) + (this.A[i % 4] - this.A[4 + (i % 4)]) / this.K;
  }

  exponentials() {
    for (let i = 0; i < 8; i += 1) this.e[8 + i] = 1 / (this.e[i] = Math.exp(this.score(i)));
  }

  // z_+ of the samples of one type, given by who asks in them; with a `slope` also its gradient, added to `entry` and `gw`.
  activate(askers, slope) {
    const { K, w, e, entry, gw } = this;
    let sum = 0;
    for (let at = 0; at < askers.length; ) {
      const asking = askers[at];
      const first = at + 2;
      const end = first + 4 * askers[at + 1];
      let total = 0;
      let c = 0;
      let v = 0;
      for (let i = first; i < end; i += 4) {
        const weight = askers[i] * e[askers[i + 1]];
        total += weight;
        c += weight * askers[i + 2];
        v += weight * askers[i + 3];
      }
      const read = (w[0] * c + w[1] * v) / total;
      sum += asking * read;
      if (slope) {
        const share = (slope * asking) / (K + 1) / total;
        gw[0] += share * c;
        gw[1] += share * v;
        for (let i = first; i < end; i += 4) {
          entry[askers[i + 1]] += share * askers[i] * e[askers[i + 1]] * (w[0] * askers[i + 2] + w[1] * askers[i + 3] - read);
        }
      }
      at = end;
    }
    return this.bias + sum / (K + 1);
  }

  // z of both heads for every type of sample, y = + first, n rising: (2, 2K); and the margins (2K,). Head − is the reflection
  // of head +: z_−(y, n) = z_+(−y, K−1−n).
  look() {
    const { K, askers: [plus, minus] } = this;
    this.exponentials();
    const z = new Float64Array(4 * K);
    for (let n = 0; n < K; n += 1) {
      z[n] = z[4 * K - 1 - n] = this.activate(plus[n], 0);
      z[K + n] = z[3 * K - 1 - n] = this.activate(minus[n], 0);
    }
    this.z = z;
    this.margin = Float64Array.from({ length: 2 * K }, (_, i) => (i < K ? 1 : -1) * (Math.max(z[i], 0) - Math.max(z[2 * K + i], 0)));
  }

  step(etaW, etaA) {
    const { K, w, entry, gw, h, askers: [positive, negative] } = this;
    this.exponentials();
    gw.fill(0);
    entry.fill(0);
    for (let n = 0; n < K; n += 1) {
      const [own, mirror] = [positive[n], negative[K - 1 - n]];
      const plus = this.activate(own, 0);
      const minus = this.activate(mirror, 0);
      // half, because a shared parameter moves both heads and this is the derivative of one alone
      const slope = (-0.5 * this.chance[n]) / (1 + Math.exp(Math.max(plus, 0) - Math.max(minus, 0)));
      if (plus > 0) this.activate(own, slope);
      if (minus > 0) this.activate(mirror, -slope);
    }
    for (let s = 0; s < 2 && etaA; s += 1) {
      for (let i = 0; i < 4; i += 1) {
        const own = entry[i] - entry[8 + i];
        const common = (own + entry[4 + i] - entry[12 + i]) / K;
        h[i] = etaA * (s ? (own - common) / (K - 1) : common);
      }
      const [A, GK, GQ] = this.parts[s];
      this.update(A, GK, GQ, h);
    }
    w[0] -= this.tied ? 0 : (etaW * gw[0]) / K;
    w[1] -= ((this.tied ? 2 : 1) * etaW * gw[1]) / K;
  }
}

// Who asks in a sample with label y, n positive and m negative signs among the others, flat: how many ask so, how many kinds of
// keys they see, and for each kind how many, whose exponential in `e`, and the key's value along c and v.
function queries(y, n, m) {
  const scored = (score, sign) => score + (sign > 0 ? 0 : 8);
  return Float64Array.from([
    [1, [[1, 0, 1, 0], [1, scored(2, y), 0, y], [n, 6, 0, 1], [m, 14, 0, -1]]], // c_k
    [1, [[1, scored(1, y), 1, 0], [1, 3, 0, y], [n, scored(7, y), 0, 1], [m, scored(7, -y), 0, -1]]], // its own signal
    [n, [[1, 5, 1, 0], [1, scored(7, y), 0, y], [n - 1, 7, 0, 1], [m, 15, 0, -1], [1, 3, 0, 1]]], // another, positive
    [m, [[1, 13, 1, 0], [1, scored(7, -y), 0, y], [n, 15, 0, 1], [m - 1, 7, 0, -1], [1, 3, 0, -1]]], // another, negative
  ].filter(([asking]) => asking > 0).flatMap(([asking, keys]) => [asking, keys.length, ...keys.flat()]));
}

// Probability of n positive signs among K − 1.
function binomial(K) {
  const row = new Float64Array(K);
  row[0] = 0.5 ** (K - 1);
  for (let n = 1; n < K; n += 1) row[n] = (row[n - 1] * (K - n)) / n;
  return row;
}
