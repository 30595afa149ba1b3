"""The whole story in plain NumPy: a transformer learns a hidden correspondence, in three stages, computed exactly.

Task.     A sample holds the tokens c_k, s_1 v_1, s_2 v_2 (signs fair, order irrelevant) and has the label y = s_k: the
          identifier c_k says which signal v_k carries the label. Nobody tells the network; it must find out.
Model.    Two heads, + and -; each averages softmax attention over its queries and passes one ReLU neuron:
              z(X) = b + 1/L Σ_l wᵀ X softmax(Xᵀ W_Kᵀ W_Q x_l),        F = ReLU(z_+) - ReLU(z_-)
Training. Full-batch gradient descent on w, W_K and W_Q at once, logistic loss log(1 + exp(-y F)), rate 0.1.

Descent on the m×d matrices W_K, W_Q closes, without approximation, on three small matrices per head over the features,
    A = W_Kᵀ W_Q,   G_K = W_Kᵀ W_K,   G_Q = W_Qᵀ W_Q        (row = key, column = query),
and the infinitely wide network is just the start A = 0, G_K = G_Q = ω² I. Derivations: docs/mathematics.md.

Run:  python minimal.py        (a few seconds, needs only NumPy)
"""

from itertools import product

import numpy as np

K, OMEGA, BIAS, RATE, STEPS = 2, 0.3, 0.5, 0.1, 20_000
F, L = 2 * K, K + 1  # features c1 c2 v1 v2; tokens in a sample
HEAD = np.array([[1.0], [-1.0]])  # the signs with which the heads enter the output


# --- The task: all K·2^K samples, equally likely. Each is a matrix whose columns are tokens in feature coordinates.


def atoms():
    """X (n, F, L) and labels y (n,)."""
    X, y = [], []
    for k, signs in product(range(K), product((1, -1), repeat=K)):
        tokens = np.zeros((F, L))
        tokens[k, 0] = 1  # c_k
        tokens[range(K, F), range(1, L)] = signs  # s_j v_j
        X.append(tokens)
        y.append(signs[k])
    return np.array(X), np.array(y, float)


X, Y = atoms()
HARD = Y * X[:, K:].sum(axis=(1, 2)) <= 0  # the plain vote of the signs does not give the label


def T(M):
    return M.swapaxes(-1, -2)


# --- The model and its gradient, by hand. It sees its parameters only through the scores S (head, n, key, query) and
# --- the values u = wᵀX (head, n, key), so the two models below share these lines and nothing else.


def model(S, u):
    """z (head, n), margin yF (n,), loss, ∂loss/∂S, ∂loss/∂u."""
    P = np.exp(S - S.max(axis=-2, keepdims=True))
    P /= P.sum(axis=-2, keepdims=True)  # softmax over keys
    read = (u[..., None] * P).sum(axis=-2)  # what each query reads
    z = BIAS + read.mean(axis=-1)
    plus, minus = np.maximum(z, 0)
    margin = Y * (plus - minus)
    loss = np.logaddexp(0, -margin).mean()
    # The slope of the logistic loss passes through each neuron that is on. Raising a score moves attention towards
    # its key, which pays by how far that key's value lies above what the query reads now.
    dz = HEAD * (z > 0) * -Y / len(Y) / (1 + np.exp(margin))
    dS = (dz / L)[..., None, None] * P * (u[..., None] - read[..., None, :])
    du = dz[..., None] * P.mean(axis=-1)
    return z, margin, loss, dS, du


# --- Model 1, every weight: w (head, d), W_K and W_Q (head, m, d); x (n, d, L) are the same tokens embedded in R^d.


def full_step(w, W_K, W_Q, x):
    keys, queries = W_K[:, None] @ x, W_Q[:, None] @ x  # (head, n, m, L)
    *_, dS, du = model(T(keys) @ queries, np.tensordot(w, x, (1, 1)))
    return (
        w - RATE * (x @ du[..., None]).sum(axis=(1, 3)),
        W_K - RATE * (queries @ T(dS) @ T(x)).sum(axis=1),
        W_Q - RATE * (keys @ dS @ T(x)).sum(axis=1),
    )


# --- Model 2, the exact reduction: w (head, F), A, G_K, G_Q (head, F, F). Its cost does not depend on m and d.


def gram_step(w, A, G_K, G_Q):
    """The next state, and z, margin, loss of the present one."""
    z, margin, loss, dS, du = model(T(X) @ A[:, None] @ X, np.tensordot(w, X, (1, 1)))
    g_w = (X @ du[..., None]).sum(axis=(1, 3))
    g = (X @ dS @ T(X)).sum(axis=1)  # ∂loss/∂A; the weights' own gradients are W_Q gᵀ and W_K g
    h = RATE * g
    # (W_K - W_Q hᵀ)ᵀ (W_Q - W_K h) multiplied out, and its two companions: only A, G_K, G_Q appear again.
    state = (
        w - RATE * g_w,
        A - (G_K @ h + h @ G_Q) + h @ T(A) @ h,
        G_K - (A @ T(h) + h @ T(A)) + h @ G_Q @ T(h),
        G_Q - (T(A) @ h + T(h) @ A) + T(h) @ G_K @ h,
    )
    return state, z, margin, loss


def mean_field():
    """The start of the infinitely wide network: by the law of large numbers the Gram matrices are not random."""
    G = np.stack([OMEGA**2 * np.eye(F)] * 2)
    return np.zeros((2, F)), np.zeros((2, F, F)), G, G


# --- The story.


def reduction_error(m=16, d=10, steps=400, seed=0):
    """Train a finite network weight by weight and by the reduction; the largest difference of their Gram matrices."""
    rng = np.random.default_rng(seed)
    features = np.linalg.qr(rng.standard_normal((d, F)))[0]  # any orthonormal features in R^d will do
    W_K, W_Q = OMEGA / np.sqrt(m) * rng.standard_normal((2, 2, m, d))
    w = np.zeros((2, d))

    def seen():
        k, q = W_K @ features, W_Q @ features
        return w @ features, T(k) @ q, T(k) @ k, T(q) @ q

    state = seen()
    for _ in range(steps):
        w, W_K, W_Q = full_step(w, W_K, W_Q, features @ X)
        state, *_ = gram_step(*state)
    return max(np.abs(mine - theirs).max() for mine, theirs in zip(state, seen()))


def main():
    error = reduction_error()
    print(f"exact reduction: width 16 in R^10, 400 steps, largest difference from the full weights {error:.1e}")
    assert error < 1e-10

    state, loss, switch_off = mean_field(), np.empty(STEPS), None
    print("\n                          least margin yF    head +")
    print("  step    time      loss     easy     hard      w·c      w·v  A[c1,v1]  A[c1,v2]  A[v1,c1]")
    for step in range(STEPS):
        w, A, *_ = state
        state, z, margin, loss[step] = gram_step(*state)
        if switch_off is None and z.min() <= 0:
            switch_off = step
        if step in (0, 100, 135, 500, 1000, 1774, 2464, 7124, STEPS - 1):
            seen = margin[~HARD].min(), margin[HARD].min(), w[0, 0], w[0, K], A[0, 0, K], A[0, 0, K + 1], A[0, K, 0]
            table = "{:8.4f} {:8.4f} {:8.4f} {:8.4f} {:9.4f} {:9.4f} {:9.4f}".format(*(round(x, 4) + 0 for x in seen))
            print(f"{step:6d} {RATE * step:7.1f} {loss[step]:9.6f} {table}")
    first = [int(np.argmax(loss < level)) for level in (0.5, 0.3, 0.1, 0.01)]
    w, A, *_ = state
    print(f"""
1 neurons      w grows along v1 + v2 until the easy samples of the other label switch a head off:
               first neuron off after {switch_off} steps, loss below 0.5 after {first[0]}
2 attention    the loss waits on a plateau while A learns which identifier belongs to which signal:
               loss below 0.3 after {first[1]} steps, below 0.1 after {first[2]}
3 convergence  the hard samples are separated and the loss falls like 1/t:
               loss below 0.01 after {first[3]} steps, and {loss[-1]:.10f} before step {STEPS}

after {STEPS} steps, head +:  w·c {w[0, 0]:.4f}  w·v {w[0, K]:.4f}
                            A[c1,v1] {A[0, 0, K]:.4f}  A[c1,v2] {A[0, 0, K + 1]:.4f}  A[v1,c1] {A[0, K, 0]:.4f}""")


if __name__ == "__main__":
    main()
