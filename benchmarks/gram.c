/* Gradient descent on the exact reduction, eight trajectories at a time (docs/mathematics.md §3, §8); -DK=3 for 3 classes.
 *
 * The yardstick for the engine: what a careful programmer gets by hand. Every variable is a vector of 8 lanes, one
 * trajectory each, so there is no shuffling and no remainder; GCC's vector extensions map it to whatever the machine
 * has. All loops have constant bounds. To K = 3 they are all unrolled, so that tokens and signs cost nothing at run time; for
 * more classes the loops over atoms stay loops, for GCC takes minutes otherwise.
 */
#include <string.h>

typedef double v8 __attribute__((vector_size(64)));
typedef long long i8 __attribute__((vector_size(64)));

#ifndef K
#define K 2
#endif

#define UNROLL _Pragma("GCC unroll 32")
#if K <= 3
#define ATOMS UNROLL
#else
#define ATOMS
#endif
#define INLINE static inline __attribute__((always_inline))

enum { F = 2 * K, T = 3 * K, SIGNS = 1 << K, N = K * SIGNS, L = K + 1 };

/* Token types c_1 … c_K +v_1 -v_1 … +v_K -v_K: their feature and sign. */
INLINE int feature(int t) { return t < K ? t : K + (t - K) / 2; }
INLINE int sign(int t) { return t < K || (t - K) % 2 == 0 ? 1 : -1; }
/* Atom a has tokens (c_k, s_1 v_1, …, s_K v_K), k = a / 2^K and the signs in the low bits, and label s_k. */
INLINE int negative(int a, int v) { return a % SIGNS >> (K - 1 - v) & 1; }
INLINE int token(int a, int j) { return j == 0 ? a / SIGNS : K + 2 * (j - 1) + negative(a, j - 1); }
INLINE int label(int a) { return negative(a, a / SIGNS) ? -1 : 1; }

typedef struct {
  v8 w[F], A[F][F], GK[F][F], GQ[F][F];
} head_t;

/* exp for |x| < 700 to about 1 ulp: 2^k times a Taylor polynomial on |r| <= log(2)/2. */
INLINE v8 vexp(v8 x) {
  const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer, kept in the low bits */
  v8 t = x * 1.4426950408889634 + magic;
  v8 k = t - magic;
  v8 r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
  v8 r2 = r * r, r4 = r2 * r2;
  /* Estrin's scheme: shorter dependency chains than Horner's at the same number of fused operations plus three. */
  v8 p = ((1.0 / 479001600 * r4) + ((1.0 / 3628800 + r * (1.0 / 39916800)) * r2 + (1.0 / 40320 + r * (1.0 / 362880)))) * (r4 * r4);
  v8 q = ((1.0 / 720 + r * (1.0 / 5040)) * r2 + (1.0 / 24 + r * (1.0 / 120))) * r4;
  v8 s = (1.0 / 2 + r * (1.0 / 6)) * r2 + (1.0 + r);
  p = p + (q + s);
  i8 scale = ((i8)t << 52) + (1023LL << 52);
  return p * (v8)scale;
}

/* Whether tokens of two types stand together in an atom: no two identifiers do, nor +v and -v. */
INLINE int meet(int k, int q) { return k == q || ((k >= K || q >= K) && feature(k) != feature(q)); }

/* E[k][q] = exp(score of key k for query q) for token types: e where the signs agree, 1/e where they differ. */
INLINE void exponentials(const head_t *h, v8 E[T][T]) {
  v8 e[F][F], ie[F][F];
  UNROLL for (int i = 0; i < F; i++)
    UNROLL for (int j = 0; j < F; j++) {
      if (i < K && j < K && i != j) continue;
      e[i][j] = vexp(h->A[i][j]);
      if ((i >= K || j >= K) && i != j) ie[i][j] = 1.0 / e[i][j];
    }
  UNROLL for (int k = 0; k < T; k++)
    UNROLL for (int q = 0; q < T; q++)
      if (meet(k, q)) E[k][q] = sign(k) * sign(q) > 0 ? e[feature(k)][feature(q)] : ie[feature(k)][feature(q)];
}

/* z of every atom, keeping 1/Z and N/Z of every query for the way back. */
INLINE void forward(const head_t *h, v8 b, v8 E[T][T], v8 iZ[N][L], v8 o[N][L], v8 z[N]) {
  exponentials(h, E);
  v8 u[T];
  UNROLL for (int k = 0; k < T; k++) u[k] = sign(k) > 0 ? h->w[feature(k)] : -h->w[feature(k)];
  ATOMS for (int a = 0; a < N; a++) {
    v8 sum = {0};
    UNROLL for (int j = 0; j < L; j++) {
      int q = token(a, j);
      v8 Z = {0}, num = {0};
      UNROLL for (int i = 0; i < L; i++) {
        int k = token(a, i);
        Z += E[k][q];
        num += u[k] * E[k][q];
      }
      iZ[a][j] = 1.0 / Z;
      o[a][j] = num * iZ[a][j];
      sum += o[a][j];
    }
    z[a] = b + sum * (1.0 / L);
  }
}

/* g_w and g from rho = dloss/dz / L of every atom. */
INLINE void backward(const head_t *h, const v8 E[T][T], const v8 iZ[N][L], const v8 o[N][L], const v8 rho[N], v8 gw[F],
                     v8 g[F][F]) {
  v8 R[T][T] = {0}, Q[T][T] = {0};
  ATOMS for (int a = 0; a < N; a++)
    UNROLL for (int j = 0; j < L; j++) {
      v8 r = rho[a] * iZ[a][j], s = r * o[a][j];
      UNROLL for (int i = 0; i < L; i++) {
        R[token(a, i)][token(a, j)] += r;
        Q[token(a, i)][token(a, j)] += s;
      }
    }
  UNROLL for (int i = 0; i < F; i++) {
    gw[i] = (v8){0};
    UNROLL for (int j = 0; j < F; j++) g[i][j] = (v8){0};
  }
  UNROLL for (int k = 0; k < T; k++)
    UNROLL for (int q = 0; q < T; q++) {
      if (!meet(k, q)) continue;
      v8 t = E[k][q] * R[k][q], m = E[k][q] * Q[k][q], wt = h->w[feature(k)] * t;
      gw[feature(k)] = sign(k) > 0 ? gw[feature(k)] + t : gw[feature(k)] - t;
      /* sign(k) sign(q) (u_k t - m) with u_k = sign(k) w */
      v8 *to = &g[feature(k)][feature(q)];
      *to = sign(q) > 0 ? *to + wt : *to - wt;
      *to = sign(k) * sign(q) > 0 ? *to - m : *to + m;
    }
}

/* The second-order update; h = eta g. G_K and G_Q are symmetric: the upper triangle is computed and mirrored. */
INLINE void update(head_t *s, v8 eta, const v8 gw[F], const v8 g[F][F]) {
  v8 h[F][F], KH[F][F], HQ[F][F], HA[F][F], AH[F][F];
  UNROLL for (int i = 0; i < F; i++) {
    s->w[i] -= eta * gw[i];
    UNROLL for (int j = 0; j < F; j++) h[i][j] = eta * g[i][j];
  }
  UNROLL for (int i = 0; i < F; i++)
    UNROLL for (int j = 0; j < F; j++) {
      v8 kh = {0}, hq = {0}, ha = {0}, ah = {0};
      UNROLL for (int k = 0; k < F; k++) {
        kh += s->GK[i][k] * h[k][j];
        hq += h[i][k] * s->GQ[k][j];
        ha += h[i][k] * s->A[j][k];
        ah += s->A[k][i] * h[k][j];
      }
      KH[i][j] = kh, HQ[i][j] = hq, HA[i][j] = ha, AH[i][j] = ah;
    }
  UNROLL for (int i = 0; i < F; i++)
    UNROLL for (int j = 0; j < F; j++) {
      v8 x = s->A[i][j] - (KH[i][j] + HQ[i][j]);
      UNROLL for (int k = 0; k < F; k++) x += HA[i][k] * h[k][j];
      s->A[i][j] = x;
      if (j < i) continue;
      v8 y = s->GK[i][j] - (HA[i][j] + HA[j][i]), z = s->GQ[i][j] - (AH[i][j] + AH[j][i]);
      UNROLL for (int k = 0; k < F; k++) {
        y += HQ[i][k] * h[j][k];
        z += h[k][i] * KH[k][j];
      }
      s->GK[i][j] = s->GK[j][i] = y;
      s->GQ[i][j] = s->GQ[j][i] = z;
    }
}

/* state: 2 heads x (w, A, G_K, G_Q) x 8 lanes of doubles; eta, bias: 8 lanes. */
void descend(double *state, const double *eta_, const double *bias_, long steps) {
  head_t head[2];
  v8 eta, b;
  memcpy(head, state, sizeof head);
  memcpy(&eta, eta_, sizeof eta);
  memcpy(&b, bias_, sizeof b);
  for (long step = 0; step < steps; step++) {
    v8 E[2][T][T], iZ[2][N][L], o[2][N][L], z[2][N], rho[2][N], gw[F], g[F][F];
    for (int h = 0; h < 2; h++) forward(&head[h], b, E[h], iZ[h], o[h], z[h]);
    ATOMS for (int a = 0; a < N; a++) {
      i8 on0 = z[0][a] > 0.0, on1 = z[1][a] > 0.0;
      v8 plus = (v8)((i8)z[0][a] & on0), minus = (v8)((i8)z[1][a] & on1);
      v8 margin = label(a) > 0 ? plus - minus : minus - plus;
      v8 slope = (-label(a) / (double)(N * L)) / (1.0 + vexp(margin));
      rho[0][a] = (v8)((i8)slope & on0);
      rho[1][a] = (v8)((i8)(-slope) & on1);
    }
    for (int h = 0; h < 2; h++) {
      backward(&head[h], E[h], iZ[h], o[h], rho[h], gw, g);
      update(&head[h], eta, gw, g);
    }
  }
  memcpy(state, head, sizeof head);
}
