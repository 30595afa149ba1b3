"""The attention kernel on lanes: what every query reads, and its pull-back, by tables over token types (docs/mathematics.md §8).

With token types τ, E[k,q] = exp(score of key k for query q), counts M[a,τ] and values u_τ:
    Z_aq = Σ_k M[a,k] E[k,q],      O_aq = Σ_k M[a,k] u_k E[k,q] / Z_aq.
Arrays over pairs (a, q) exist only where q asks in a: shape (m, T, lanes), see `Rows`. The last axis holds the attentions of a
network side by side, LANES runs each. Every line is a stage: computed once and stored (`lanes.stages`).
"""

import numpy as np

from ..jaxed import jax
from .lanes import exp, transpose

UNROLL = (
    200  # atoms up to which sums are written out (K ≤ 5), without the pairs that do not occur; beyond, a matrix product
)


class Tables:
    """The kernel of one finite task; `ask` (n, T) and `share` (n,) say how queries are pooled (`readout.asking`).

    fine   whether g keeps its digits where one key has nearly all of the attention, which the length of a step depends on if
           that is the gradient's; T times the sums, so not in a large task
    """

    def __init__(self, task, ask, share, fine=False):
        self.feature, self.coefficient = task.token_feature, task.token_coefficient
        self.features = len(task.features)
        self.rows = Rows(task.count, ask, share)
        self.fine = fine and not self.rows.large

    def exponentials(self, stage, A):
        """E (T, T, lanes) from scores between features A (F, F, lanes), and 1/Z (m, T, lanes)."""
        jnp, f = jax().numpy, self.feature
        cc = self._signs
        if np.all(np.abs(cc) == 1):  # signs only: e^{-x} is 1/e^x, which saves most of the exponentials

            def signed(e, inverse):
                return jnp.where(cc > 0, e[f][:, f], inverse[f][:, f])

            e = stage(exp, A)
            E = stage(signed, e, stage(_inverse, e))
        else:
            E = stage(lambda A: exp(cc * A[f][:, f]), A)
        return E, stage(lambda E: 1 / self.rows.sum_keys(E), E)

    def read(self, stage, E, inverse_Z, w):
        """u E (T, T, lanes) and O (m, T, lanes) of one value vector w (F, lanes)."""
        f, c = self.feature, self.coefficient
        uE = stage(lambda w, E: (c[:, None] * w[f])[:, None] * E, w, E)
        return uE, stage(lambda uE, inverse_Z: self.rows.sum_keys(uE) * inverse_Z, uE, inverse_Z)

    def pull_back(self, stage, E, inverse_Z, w, read, R):
        """∂loss/∂w (F, lanes) of each value vector w and g = ∂loss/∂A (F, F, lanes).

        read  (u E, O) of each value vector;  R  its ∂loss/∂O divided by Z, (m, T, lanes)
        """
        c, cc, rows, T = self.coefficient, self._signs, self.rows, range(len(self.feature))
        g_w, uEMR, RO = [], None, None
        for (uE, O), each in zip(read, R, strict=True):
            MR = stage(rows.sum_atoms, each)  # (T, T, lanes), as E
            g_u = stage(lambda E, MR: c[:, None] * sum(E[:, q] * MR[:, q] for q in T), E, MR)
            g_w.append(stage(self.fold, g_u))
            RO_each = stage(lambda R, O: R * O, each, O)
            if len(R) == 1:
                g_S = stage(lambda E, uE, MR, RO: cc * (uE * MR - E * rows.sum_atoms(RO)), E, uE, MR, RO_each)
                break
            product = stage(lambda uE, MR: uE * MR, uE, MR)
            uEMR = product if uEMR is None else uEMR + product
            RO = RO_each if RO is None else RO + RO_each
        else:
            g_S = stage(lambda E, uEMR, RO: cc * (uEMR - E * rows.sum_atoms(RO)), E, uEMR, RO)
        if self.fine:
            g_S = cc * sum(self._finely(stage, E, inverse_Z, *each) for each in zip(w, R, strict=True))
        return g_w, stage(lambda X: transpose(self.fold(transpose(self.fold(X)))), g_S)

    def _finely(self, stage, E, inverse_Z, w, R):
        """Σ_a M[a,k] R_aq E_kq (u_k − O_aq) (T, T, lanes) by u_k − O_aq = Σ_j M[a,j] E_jq (u_k − u_j) / Z_aq: nothing cancels."""
        jnp, f, c, rows = jax().numpy, self.feature, self.coefficient, self.rows
        counts = rows.M[rows.atom][..., None]  # (m, T, k, 1)
        u = stage(lambda w: c[:, None] * w[f], w)  # stored: the difference of two roundings of one product is not 0

        def of_key(k):
            def above(E, inverse_Z, u, R):
                difference = rows.sum_keys((u[k] - u)[:, None] * E) * inverse_Z
                return E[k] * jnp.sum(counts[:, :, k] * R * difference, axis=0)

            return stage(above, E, inverse_Z, u, R)

        return jnp.stack([of_key(k) for k in range(len(f))])

    @property
    def _signs(self):
        c = self.coefficient
        return (c[:, None] * c)[:, :, None]

    def fold(self, X):
        """Sum the rows of token types (T, …) into rows of features (F, …).

        Types are sorted by feature; neighbouring features with equally many types are summed as one strided block.
        """
        jnp = jax().numpy
        many = np.bincount(self.feature, minlength=self.features)
        blocks, at, i = [], 0, 0
        while i < len(many):
            run = next((j for j in range(i, len(many)) if many[j] != many[i]), len(many)) - i
            block = X[at : at + run * many[i]]
            rows = sum(block[j :: many[i]] for j in range(many[i])) if many[i] else jnp.zeros((run, *X.shape[1:]))
            blocks.append(rows)
            at, i = at + run * many[i], i + run
        return jnp.concatenate(blocks) if len(blocks) > 1 else blocks[0]


def _inverse(e):
    return 1 / e


class Rows:
    """Where every token type asks: row i of type q is the atom `atom[i, q]`, so that no row is wasted.

    Half of all pairs (atom, type) of a mixture do not occur. Types that ask in fewer atoms than others are filled up
    with repetitions of weight 0. In a large task every type lists all atoms: the sums are then plain matrix products.
    """

    def __init__(self, M, ask, share):
        n, T = M.shape
        self.M, self.large = M, max(n, T) > UNROLL
        atoms = [np.arange(n) if self.large else np.flatnonzero(ask[:, q]) for q in range(T)]
        m = max(map(len, atoms))
        self.atom = np.stack([np.resize(a, m) if len(a) else np.zeros(m, int) for a in atoms], axis=1)  # (m, T)
        first = np.arange(m)[:, None] < [len(a) for a in atoms]
        self.weight = (first * ask[self.atom, np.arange(T)] / share[self.atom])[:, :, None]  # e.g. M[a,q] / L_a
        # The way back: the s-th type of atom a has its row at flat index place[s, a]; share is 0 past the last type.
        present = np.argsort(ask == 0, axis=1, kind="stable")[:, : (ask > 0).sum(axis=1).max()].T  # (S, n)
        row = np.zeros((n, T), int)
        for q, a in enumerate(atoms):
            row[a, q] = np.arange(len(a))
        self.place = row[np.arange(n), present] * T + present
        self.share = (ask[np.arange(n), present] / share)[:, :, None]

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

    def pool(self, X):
        """Σ_q ask[a,q] X[a,q] / share_a, e.g. the mean over queries: (m, T, lanes) -> (n, lanes)."""
        flat = X.reshape(-1, X.shape[-1])
        return sum(share * flat[place] for share, place in zip(self.share, self.place, strict=True))

    def spread(self, X):
        """The pull-back of `pool`: (n, lanes) -> (m, T, lanes)."""
        return X[self.atom] * self.weight
