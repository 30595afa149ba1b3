"""The slow independent twin: plain full-batch descent in NumPy from token lists, sharing no code with the engine.

`twin_descent` moves the Gram state (w, A, G_K, G_Q) of docs/mathematics.md §3 and §8; `full_descent` moves every weight.
Only the task's definition and the initial state come from mixflow.
"""

import numpy as np

from mixflow.networks.initial import draw_weights, embedding, start


def tokens(task):
    """X (n, L, F): every token of every atom in feature coordinates, and present (n, L); short atoms are padded."""
    task = task.population()
    L = max(map(len, task.atoms))
    X, present = np.zeros((len(task.atoms), L, len(task.features))), np.zeros((len(task.atoms), L), bool)
    for a, atom in enumerate(task.atoms):
        for i, (name, coefficient) in enumerate(atom):
            X[a, i, task.features.index(name)] = coefficient
            present[a, i] = True
    return X, present


def forward(X, present, w, A, bias):
    """z (h, n), attention P (h, n, key, query) and the attention-averaged features φ (h, n, F)."""
    S = X @ A[:, None] @ X.swapaxes(-1, -2)
    S = np.where(present[:, :, None], S, -np.inf)
    E = np.exp(S - S.max(axis=-2, keepdims=True))
    P = E / E.sum(axis=-2, keepdims=True)
    share = present / present.sum(axis=1, keepdims=True)  # (n, query)
    phi = ((P @ share[..., None]).swapaxes(-1, -2) @ X)[..., 0, :]
    return bias + (phi @ w[..., None])[..., 0], P, phi


def logistic(y, on):
    """Loss of every atom (n,) and its derivative by ReLU(z_h), (h, n); so for each loss."""
    F = on[0] - on[1]
    slope = -y * np.exp(-np.logaddexp(0, y * F))
    return np.logaddexp(0, -y * F), np.stack([slope, -slope])


def squared(y, on):
    F = on[0] - on[1]
    return 0.5 * (F - y) ** 2, np.stack([F - y, y - F])


def softmax(y, on):
    P = np.exp(on) / np.exp(on).sum(axis=0)
    own = np.array([[c == label for label in y] for c in range(len(on))], float)
    return -np.log((P * own).sum(axis=0)), P - own


COSTS = {"logistic": logistic, "squared": squared, "softmax": softmax}


def loss_and_gradient(task, w, A, bias, data=None):
    """Population loss, ∂loss/∂w (h, F) and g = ∂loss/∂A (h, F, F), by hand; ReLU'(0) = 0."""
    task = task.population()
    X, present = data or tokens(task)
    z, P, phi = forward(X, present, w, A, bias)
    each, slopes = COSTS[task.loss](task.labels, np.maximum(z, 0))
    loss, dz = task.probabilities @ each, task.probabilities * slopes * (z > 0)  # dz (h, n)
    g_w = (dz[:, None] @ phi)[:, 0]
    u = (X @ w[:, None, :, None])[..., 0]  # (h, n, key)
    o = u[:, :, None, :] @ P  # (h, n, 1, query)
    share = present / present.sum(axis=1, keepdims=True)
    dS = P * (u[..., None] - o) * (dz[..., None] * share)[:, :, None, :]
    g = np.sum(X.swapaxes(-1, -2) @ dS @ X, axis=1)
    return loss, g_w, g


def begin(transformer, task):
    """The initial state with one value vector in each head: w (h, F), A, G_K, G_Q (h, F, F)."""
    state = start(transformer, task)
    return {**state, "w": state["w"][:, 0]}


def twin_descent(
    task, transformer, learning_rate, steps, save_every, train_w=True, train_attention=True, state=None, time=0.0
):
    """Descent on (w, A, G_K, G_Q) from `state` (or the transformer's start) at `time`; dict of arrays, saves first.

    `loss` is evaluated at the saved state; `every_loss` before each step.
    """
    finite, eta = task.population(), learning_rate
    Gamma, data = finite.gram, tokens(finite)
    state = begin(transformer, finite) if state is None else state
    w, A, G_K, G_Q = (state[name] for name in ("w", "A", "G_K", "G_Q"))
    t = lambda M: M.swapaxes(-1, -2)  # noqa: E731
    saved, every_loss = [], []
    for step in range(steps + 1):
        loss, g_w, g = loss_and_gradient(finite, w, A, transformer.bias, data)
        if step % save_every == 0 or step == steps:
            saved.append((time + eta * step, loss, w, A, G_K, G_Q))
        if step == steps:
            break
        every_loss.append(loss)
        if train_w:
            g_w = _tied(g_w) if transformer.tie_values else g_w
            w = w - eta * g_w @ Gamma
        if train_attention:
            left, right = Gamma @ g, g @ Gamma  # Γ g, g Γ
            A, G_K, G_Q = (
                A - eta * (G_K @ right + left @ G_Q) + eta**2 * left @ t(A) @ right,
                G_K - eta * (A @ t(left) + left @ t(A)) + eta**2 * left @ G_Q @ t(left),
                G_Q - eta * (t(A) @ right + t(right) @ A) + eta**2 * t(right) @ G_K @ right,
            )
    names = ("time", "loss", "w", "A", "G_K", "G_Q")
    return {name: np.array(column) for name, column in zip(names, zip(*saved))} | {"every_loss": np.array(every_loss)}


def three_stage(task, transformer, learning_rate, steps, save_every):
    """Algorithm 1 by descent: `steps` of stages 1, 2, 3; one trajectory, the switch times not marked in it."""
    parts, state, time = [], None, 0.0
    for count, train_w in zip(steps, (True, False, True)):
        part = twin_descent(
            task, transformer, learning_rate, count, save_every, train_w, not train_w, state=state, time=time
        )
        state, time = {name: part[name][-1] for name in ("w", "A", "G_K", "G_Q")}, part["time"][-1]
        parts.append(part)
    every = np.concatenate([part.pop("every_loss") for part in parts])
    keep = [parts[0]] + [{name: values[1:] for name, values in part.items()} for part in parts[1:]]
    return {name: np.concatenate([part[name] for part in keep]) for name in keep[0]} | {"every_loss": every}


def full_descent(task, transformer, learning_rate, steps):
    """Descent on every weight, (w, W_K, W_Q) in R^d; the final Gram state in feature coordinates."""
    finite, eta = task.population(), learning_rate
    Phi, data = embedding(finite, transformer.dimension), tokens(finite)
    drawn = draw_weights(transformer, finite)
    W_K, W_Q = drawn["W_K"], drawn["W_Q"]
    w = np.zeros((len(W_K), len(Phi)))
    for _ in range(steps):
        A = np.einsum("hmi,hmj->hij", W_K @ Phi, W_Q @ Phi)
        _, g_w, g = loss_and_gradient(finite, w @ Phi, A, transformer.bias, data)
        g_w = _tied(g_w) if transformer.tie_values else g_w
        g = Phi @ g @ Phi.T
        w, W_K, W_Q = w - eta * g_w @ Phi.T, W_K - eta * W_Q @ g.swapaxes(-1, -2), W_Q - eta * W_K @ g
    K, Q = W_K @ Phi, W_Q @ Phi
    inner = lambda X, Y: np.einsum("hmi,hmj->hij", X, Y)  # noqa: E731
    return {"w": w @ Phi, "A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q)}


def _tied(g_w):
    shared = g_w[0] - g_w[1]
    return np.stack([shared, -shared])
