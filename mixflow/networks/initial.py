"""How the weights of a one-layer transformer are drawn, and the inner products they begin with (docs/mathematics.md §2, §13)."""

import math

import numpy as np

from ..errors import SpecError

MOST = 200_000_000  # numbers in the key and query weights, or in the value weights: 1.6 GB, width 10⁷ with two heads at K = 2


def embedding(task, dimension=None):
    """Φ, shape (d, F): feature vectors with Φᵀ Φ = Γ, in the first F coordinates (d ≥ F unless Γ has low rank).

    The symmetric square root of Γ, so that orthonormal features are simply the first basis vectors.
    """
    F = len(task.features)
    values, vectors = np.linalg.eigh(task.gram)
    rank = int(np.sum(values > 1e-12 * max(values[-1], 1e-300)))
    d = F if dimension is None else dimension
    if d < rank:
        raise SpecError(f"dimension = {d}: expected at least {rank}, the rank of the features' Gram matrix.")
    if np.array_equal(task.gram, np.eye(F)):
        root = np.eye(F)
    elif d >= F:
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    else:
        root = (vectors * np.sqrt(np.maximum(values, 0))).T[F - d :]
    Phi = np.zeros((d, F))
    Phi[: len(root)] = root
    return Phi


def draw_weights(transformer, task):
    """Initial weights by name: W_K and W_Q (a, m, d), a = 1 where heads share them, else H; w (H, r, d), or W_V (H, r, m, d)
    and value_neurons (H, r, m₁, m).

    The first F columns are drawn first, so that d > F changes nothing that training can see.
    """
    W_K, W_Q = _keys_and_queries(transformer, task)
    if transformer.value_neurons is None:
        return {"w": draw_values(transformer, task), "W_K": W_K, "W_Q": W_Q}
    return {**_value_product(transformer, task), "W_K": W_K, "W_Q": W_Q}


def _keys_and_queries(transformer, task):
    attentions = 1 if transformer.shared_attention else len(transformer.heads_for(task))
    W_K, W_Q = _rows(transformer, task, (2, attentions), np.random.default_rng(transformer.seed))
    return W_K[:1] if transformer.shared_keys else W_K, W_K if transformer.attention == "tied" else W_Q


def _rows(transformer, task, many, rng):
    """Matrices (*many, m, d) of width m: entries N(0, ω²/m), or N(0, 1/d)."""
    m, d = transformer.width, len(embedding(task, transformer.dimension))
    F = min(d, len(task.features))
    scale = 1 / math.sqrt(d) if transformer.standard else transformer.omega / math.sqrt(m)
    if (total := math.prod(many) * m * d) > MOST:
        raise SpecError(
            f"width = {m}: {d} coordinates of each neuron are {total} numbers to draw, above {MOST}; take a smaller width, or "
            "math.inf for its limit."
        )
    drawn = rng.standard_normal((*many, m, F))
    if d > F:
        drawn = np.concatenate([drawn, rng.standard_normal((*many, m, d - F))], axis=-1)
    drawn *= scale  # in place: at width 10⁷ these are gigabytes
    return drawn


def _value_product(transformer, task):
    """W_V and the neurons behind it, each from a stream of its own."""
    many, m, neurons = (
        (len(transformer.heads_for(task)), transformer.values),
        transformer.width,
        transformer.value_neurons,
    )
    scale = 1 / math.sqrt(m) if transformer.standard else transformer.value_scale / math.sqrt(m * neurons)
    drawn = np.random.default_rng([transformer.seed, 4]).standard_normal((*many, neurons, m))
    W_V = _rows(transformer, task, many, np.random.default_rng([transformer.seed, 3]))
    return {"W_V": W_V, "value_neurons": scale * drawn}


def neuron_signs(transformer):
    """a_j = + − + … of the neurons behind W_V."""
    return np.where(np.arange(transformer.value_neurons) % 2 == 0, 1.0, -1.0)


def draw_values(transformer, task):
    """Initial w (H, r, d), from a stream of its own, so that random values leave W_K and W_Q as they were."""
    d, H, r = len(embedding(task, transformer.dimension)), len(transformer.heads_for(task)), transformer.values
    scale = 1 / math.sqrt(d) if transformer.standard else transformer.value_scale
    if not scale:
        return np.zeros((H, r, d))
    w = scale * np.random.default_rng([transformer.seed, 1]).standard_normal((H, r, d))
    if transformer.tie_values:
        w[1] = -w[0]
    return w


def _start_values(transformer, task, Phi):
    """w (H, r, F), and where it is a product also G_V (H, r, F, F) and N (H, r), the squared length of Σ_j a_j w_j."""
    if transformer.value_neurons is None:
        return {"w": draw_values(transformer, task) @ Phi}
    if transformer.mean_field:
        shape, F = (len(transformer.heads_for(task)), transformer.values), len(task.features)
        G_V = np.broadcast_to(transformer.omega**2 * task.gram, (*shape, F, F)).copy()
        return {"w": np.zeros((*shape, F)), "G_V": G_V, "N": np.full(shape, transformer.value_scale**2)}
    drawn = _value_product(transformer, task)
    V, total = drawn["W_V"] @ Phi, np.einsum("j,hrjm->hrm", neuron_signs(transformer), drawn["value_neurons"])
    return {
        "w": np.einsum("hrm,hrmf->hrf", total, V),
        "G_V": np.einsum("hrmf,hrmg->hrfg", V, V),
        "N": np.sum(total**2, axis=-1),
    }


def others(transformer, task):
    """Initial values of what is trained beside w and the attention: bias (H, r), read_out (H, r), offset (), where they are."""
    H, r = len(transformer.heads_for(task)), transformer.values
    found = {"bias": np.full((H, r), transformer.bias)} if transformer.train_bias else {}
    if r > 1:
        found["read_out"] = np.full((H, r), 1 / math.sqrt(r))
    if transformer.offset:
        found["offset"] = np.zeros(())
    return found


def start(transformer, task):
    """The initial Gram state in feature coordinates: w (H, r, F), A, G_K, G_Q (a, F, F), and `others` (docs/mathematics.md §3).

    Where w is a product there are also G_V (H, r, F, F) and N (H, r).

    A holds the scores: where these are divided by √m, so are G_K and G_Q. With directly trained scores there are no G_K and G_Q,
    and A starts as that of the product network.
    """
    Phi = embedding(task, transformer.dimension)
    state = _start_values(transformer, task, Phi) | others(transformer, task)
    attentions = 1 if transformer.shared_attention else len(transformer.heads_for(task))
    F = len(task.features)
    if not transformer.mean_field:
        K, Q = _keys_and_queries(transformer, task)
        if not np.array_equal(Phi, np.eye(F)):  # the product by 1 would take longer than drawing
            K, Q = K @ Phi, Q @ Phi
        return state | products(transformer, K, Q)
    state["A"] = np.zeros((attentions, F, F))
    if transformer.direct:
        if transformer.standard:  # A(0)/√m of m rows N(0, 1/d) is Gaussian, Φᵀ N Φ with entries of variance 1/d²
            d = len(Phi)
            drawn = np.random.default_rng([transformer.seed, 2]).standard_normal((attentions, d, d)) / d
            state["A"] = Phi.T @ drawn @ Phi
        return state
    G = np.broadcast_to(transformer.score_scale * transformer.omega**2 * task.gram, (attentions, F, F)).copy()
    if transformer.attention == "tied":
        return {**state, "A": G}
    if transformer.shared_keys:
        pairs = attentions * (attentions - 1) // 2
        return {**state, "G_K": G[:1].copy(), "G_Q": G, "G_QQ": np.zeros((pairs, F, F))}
    return {**state, "G_K": G, "G_Q": G.copy()}


def products(transformer, K, Q, xp=np):
    """The attention's part of a Gram state from keys and queries of features K, Q (a, m, F), on the scale of the scores.

    A, G_K, G_Q (a, F, F); with shared keys G_K (1, F, F), and G_QQ (pairs, F, F) between the queries of two heads.
    """

    def inner(X, Y):
        return transformer.score_scale * xp.einsum("hmi,hmj->hij", *xp.broadcast_arrays(X, Y))

    if transformer.direct or transformer.attention == "tied":
        return {"A": inner(K, Q)}
    found = {"A": inner(K, Q), "G_K": inner(K, K), "G_Q": inner(Q, Q)}
    if transformer.shared_keys:
        first, second = np.triu_indices(len(Q), 1)
        found["G_QQ"] = inner(Q[first], Q[second])
    return found
