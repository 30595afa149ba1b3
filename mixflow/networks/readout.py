"""From what the queries read to the answer: neurons, signs of heads, values with a read-out, offset (docs/mathematics.md §13).

O is what query q of an atom reads in one head: Σ_k P[k,q] s_k w[f_k]. Everything after O is stated here, once for every engine:

    z = b + Σ_q ask[q] O[q]       on = ReLU(z)                      activate = "after" the pooling over queries
    z[q] = b + O[q]               on = Σ_q ask[q] ReLU(z[q])        activate = "before" it
    out[h] = Σ_v u[h,v] on[h,v]   F = Σ_h ± out[h] − θ              (softmax: out itself, one logit for each class)
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ReadOut:
    """The read-out of one network on one task; axes (..., head, value, atom).

    signs   of the heads in the answer; None where heads are classes (softmax)
    values  r, neurons of each head
    linear  no ReLU
    before  whether the ReLU acts on what each query reads
    """

    signs: tuple | None
    values: int = 1
    linear: bool = False
    before: bool = False

    @classmethod
    def of(cls, network, task):
        """The read-out of a Transformer."""
        signs = None if task.loss == "softmax" else tuple(1.0 if h % 2 == 0 else -1.0 for h in range(network.heads))
        before = network.activate == "before" and network.queries != "one"  # with one query there is nothing to pool
        return cls(signs, network.values, network.activation == "linear", before)

    def act(self, z, xp=np):
        """ReLU, or nothing; its derivative at 0 is 0."""
        return z if self.linear else xp.where(z > 0, z, 0.0)

    def answer(self, on, read_out=None, offset=0.0):
        """F (..., n), or one logit for each head (..., H, n), from the pooled activations (..., H, r, n).

        read_out (..., H, r) or None for 1; offset (...) or a number. Sums are written out: a fixed order of adding.
        """
        heads = range(on.shape[-3])
        if read_out is not None:
            on = on * read_out[..., None]
        out = [sum(on[..., h, v, :] for v in range(on.shape[-2])) for h in heads]
        if self.signs is None:
            return (np if isinstance(on, np.ndarray) else _jnp()).stack(out, axis=-2)
        total = sum(sign * each for sign, each in zip(self.signs, out, strict=True))
        return total - np.asarray(offset)[..., None] if isinstance(offset, np.ndarray) else total - offset


def asking(network, task):
    """(n, T) how often each token type of an atom asks, and (n,) what its sum is divided by: mean, sum, or one asking token."""
    if network.queries == "one":
        return np.eye(len(task.token_feature))[task.query_index], np.ones(len(task.labels))
    return task.count, task.length if network.queries == "mean" else np.ones(len(task.labels))


def _jnp():
    from ..jaxed import jax

    return jax().numpy
