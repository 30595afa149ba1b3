"""The exact Gram reduction: descent on (w, A, G_K, G_Q), at any width (docs/mathematics.md §3, §8).

Equal to training every weight, step for step.
"""

import numpy as np

from ..jaxed import jax
from ..networks.transformer import start
from . import loss as losses
from .lanes import LANES, exp, logistic, product, stages, transpose

UNROLL = 24  # atoms up to which sums are written out (K ≤ 3); beyond, a matrix product compiles faster


class Gram:
    """Gradient descent on the Gram state of one finite task, `LANES` runs at a time.

    The heads lie side by side in the last axis: index h·LANES + lane, h = 0 for head +, 1 for head -.
    """

    name = "gram"
    lanes = LANES

    def __init__(self, task, tie_values=False):
        self.task, self.tie_values = task, tie_values
        self.heads = len(task.heads)
        self.orthonormal = np.array_equal(task.gram, np.eye(len(task.gram)))  # then no product with Γ is compiled
        self.rows = Rows(task.count, task.length)

    @property
    def key(self):
        """What the compiled program depends on; probabilities, Γ, learning rate and bias are arguments of it."""
        task = self.task
        arrays = (task.token_feature, task.token_coefficient, task.count, task.labels)
        return (
            self.name,
            self.tie_values,
            self.orthonormal,
            task.loss,
            len(task.features),
            *(array.tobytes() for array in arrays),
            task.count.shape,
        )

    def start(self, transformer):
        """The initial state of one run: w (H, F), A, G_K, G_Q (H, F, F)."""
        return start(transformer, self.task)

    def parameters(self, transformers, eta_w, eta_A):
        """Arrays the step reads besides the state, for `LANES` runs; a rate of zero freezes that part of the model."""
        bias = np.array([transformer.bias for transformer in transformers])
        lanes = {"bias": bias, "eta_w": eta_w, "eta_A": eta_A}
        gram = {} if self.orthonormal else {"gram": self.task.gram}
        return {
            "probability": self.task.probabilities,
            **gram,
            **{name: np.tile(x, self.heads) for name, x in lanes.items()},
        }

    def stack(self, states):
        """`LANES` states of single runs -> one state with lanes: w (F, H·LANES), A, G_K, G_Q (F, F, H·LANES)."""
        heads = range(self.heads)
        return {
            name: np.concatenate([np.stack([state[name][h] for state in states], axis=-1) for h in heads], axis=-1)
            for name in ("w", "A", "G_K", "G_Q")
        }

    def unstack(self, saved, lane):
        """The history of one lane: (saves, F, …, H·LANES) -> (saves, H, F, …)."""
        places = [h * LANES + lane for h in range(self.heads)]
        return {name: np.stack([x[..., i] for i in places], axis=1) for name, x in saved.items()}

    final = staticmethod(lambda state: {})  # the history itself holds the whole state

    def observe(self, state, parameters):
        """What is recorded at a save: the whole state."""
        return state

    def step(self, i, state, parameters):
        """One step of gradient descent, with its second-order terms (docs/mathematics.md §8); P = η Γ g, Q = η g Γ."""
        w, A, G_K, G_Q = state["w"], state["A"], state["G_K"], state["G_Q"]
        stage, T = stages(parameters["probability"]), transpose
        g_w, g = self.gradient(w, A, parameters)
        h = stage(lambda eta, g: eta * g, parameters["eta_A"], g)
        h_w, P, Q = parameters["eta_w"] * g_w, h, h
        if not self.orthonormal:
            Γ = parameters["gram"][:, :, None]
            h_w = product(Γ, h_w[:, None])[:, 0]
            P, Q = stage(product, Γ, h), stage(product, h, Γ)
        PA = stage(lambda P, A: product(P, T(A)), P, A)
        AQ = stage(lambda A, Q: product(T(A), Q), A, Q)
        GQ, PG = stage(product, G_K, Q), stage(product, P, G_Q)
        return {
            "w": w - h_w,
            "A": stage(lambda A, GQ, PG, PA, Q: A - (GQ + PG) + product(PA, Q), A, GQ, PG, PA, Q),
            "G_K": stage(lambda G, PA, PG, P: G - (PA + T(PA)) + product(PG, T(P)), G_K, PA, PG, P),
            "G_Q": stage(lambda G, AQ, GQ, Q: G - (AQ + T(AQ)) + product(T(Q), GQ), G_Q, AQ, GQ, Q),
        }

    def gradient(self, w, A, parameters):
        """∂loss/∂w (F, lanes) and g = ∂loss/∂A (F, F, lanes), all heads, in feature coordinates.

        The lines of docs/mathematics.md §8, each a stage: computed once and stored.

        With token types τ, E[k,q] = exp(score of key k for query q), counts M[a,τ] and values u_τ:
            Z_aq = Σ_k M[a,k] E[k,q],   O_aq = Σ_k M[a,k] u_k E[k,q] / Z_aq,   z_a = b + (1/L_a) Σ_q M[a,q] O_aq.
        Arrays over pairs (a, q) exist only where q stands in a: shape (m, T, lanes), see `Rows`.
        """
        jnp, task, rows = jax().numpy, self.task, self.rows
        stage = stages(parameters["probability"])
        f, c = task.token_feature, task.token_coefficient
        cc = (c[:, None] * c)[:, :, None]
        if np.all(np.abs(cc) == 1):  # signs only: e^{-x} is 1/e^x, which saves most of the exponentials
            e = stage(exp, A)
            inverse = stage(lambda e: 1 / e, e)
            E = stage(lambda e, inverse: jnp.where(cc > 0, e[f][:, f], inverse[f][:, f]), e, inverse)
        else:
            E = stage(lambda A: exp(cc * A[f][:, f]), A)
        uE = stage(lambda w, E: (c[:, None] * w[f])[:, None] * E, w, E)
        inverse_Z = stage(lambda E: 1 / rows.sum_keys(E), E)
        O = stage(lambda uE, inverse_Z: rows.sum_keys(uE) * inverse_Z, uE, inverse_Z)
        z = stage(lambda O, b: b + rows.mean_queries(O), O, parameters["bias"])  # (n, lanes)
        r = self.gate(stage, z, parameters["probability"])
        # R_aq = r_a M[a,q] / (L_a Z_aq)
        R = stage(lambda r, inverse_Z: r[rows.atom] * (rows.weight * inverse_Z), r, inverse_Z)
        RO = stage(lambda R, O: R * O, R, O)
        MR = stage(rows.sum_atoms, R)  # (T, T, lanes), as E
        g_u = stage(lambda E, MR: c[:, None] * sum(E[:, q] * MR[:, q] for q in range(len(f))), E, MR)
        g_S = stage(lambda E, uE, MR, RO: cc * (uE * MR - E * rows.sum_atoms(RO)), E, uE, MR, RO)
        g_w = stage(self.fold, g_u)
        if self.tie_values:
            g_shared = g_w[:, :LANES] - g_w[:, LANES:]
            g_w = jnp.concatenate([g_shared, -g_shared], axis=-1)
        return g_w, stage(lambda X: transpose(self.fold(transpose(self.fold(X)))), g_S)

    def gate(self, stage, z, probability):
        """∂loss/∂z_h of every atom, (n, lanes): the residual where the neuron is on, 0 where it is off."""
        jnp, y, head = jax().numpy, self.task.labels[:, None], np.array([1.0, -1.0])[:, None]
        heads = lambda z: z.reshape(-1, self.heads, LANES)  # noqa: E731
        if self.task.loss != "logistic":

            def slope(z, probability):
                on = jnp.maximum(heads(z), 0.0).T  # (LANES, H, n)
                return (probability * losses.slope(self.task.loss, self.task.labels, on)).T

            slopes = stage(slope, z, probability)
            return stage(lambda z, x: jnp.where(heads(z) > 0, x, 0.0).reshape(z.shape), z, slopes)

        def residual(z, probability):
            on = jnp.maximum(heads(z), 0.0)
            return -y * probability[:, None] * logistic(y * (on[:, 0] - on[:, 1]))

        residuals = stage(residual, z, probability)  # (n, LANES), of z_+; that of z_- has the other sign
        return stage(lambda z, x: jnp.where(heads(z) > 0, head * x[:, None], 0.0).reshape(z.shape), z, residuals)

    def fold(self, X):
        """Sum the rows of token types (T, …) into rows of features (F, …).

        Types are sorted by feature; neighbouring features with equally many types are summed as one strided block.
        """
        jnp = jax().numpy
        many = np.bincount(self.task.token_feature, minlength=len(self.task.features))
        blocks, at, i = [], 0, 0
        while i < len(many):
            run = next((j for j in range(i, len(many)) if many[j] != many[i]), len(many)) - i
            block = X[at : at + run * many[i]]
            rows = sum(block[j :: many[i]] for j in range(many[i])) if many[i] else jnp.zeros((run, *X.shape[1:]))
            blocks.append(rows)
            at, i = at + run * many[i], i + run
        return jnp.concatenate(blocks) if len(blocks) > 1 else blocks[0]


class Rows:
    """Where every token type stands as a query: row i of type q is the atom `atom[i, q]`, so that no row is wasted.

    Half of all pairs (atom, type) of a mixture do not occur. Types that stand in fewer atoms than others are filled up
    with repetitions of weight 0. In a large task every type lists all atoms: the sums are then plain matrix products.
    """

    def __init__(self, M, length):
        n, T = M.shape
        self.M, self.large = M, max(n, T) > UNROLL
        atoms = [np.arange(n) if self.large else np.flatnonzero(M[:, q]) for q in range(T)]
        m = max(map(len, atoms))
        self.atom = np.stack([np.resize(a, m) for a in atoms], axis=1)  # (m, T)
        first = np.arange(m)[:, None] < [len(a) for a in atoms]
        self.weight = (first * M[self.atom, np.arange(T)] / length[self.atom])[:, :, None]  # M[a,q] / L_a
        # The way back: the s-th type of atom a has its row at flat index place[s, a]; share is 0 past the last type.
        present = np.argsort(M == 0, axis=1, kind="stable")[:, : (M > 0).sum(axis=1).max()].T  # (S, n)
        row = np.zeros((n, T), int)
        for q, a in enumerate(atoms):
            row[a, q] = np.arange(len(a))
        self.place = row[np.arange(n), present] * T + present
        self.share = (M[np.arange(n), present] / length)[:, :, None]

    def sum_keys(self, X):
        """Σ_k M[a,k] X[k,q]: (T, T, lanes) -> (m, T, lanes)."""
        if self.large:
            return jax().numpy.dot(self.M, X.reshape(len(X), -1)).reshape(-1, *X.shape[1:])
        counts = self.M[self.atom][..., None]  # (m, T, k, 1)
        return sum(counts[:, :, k] * X[k] for k in range(len(X)))

    def sum_atoms(self, X):
        """Σ_a M[a,k] X[a,q]: (m, T, lanes) -> (T, T, lanes)."""
        if self.large:
            return jax().numpy.dot(self.M.T, X.reshape(len(X), -1)).reshape(-1, *X.shape[1:])
        counts = np.swapaxes(self.M[self.atom], 1, 2)[..., None]  # (m, k, T, 1)
        return sum(counts[i] * X[i] for i in range(len(X)))

    def mean_queries(self, X):
        """(1/L_a) Σ_q M[a,q] X[a,q]: (m, T, lanes) -> (n, lanes)."""
        flat = X.reshape(-1, X.shape[-1])
        return sum(share * flat[place] for share, place in zip(self.share, self.place, strict=True))
