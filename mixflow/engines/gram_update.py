"""One step of descent on W_K and W_Q, closed on their inner products: stated once for every engine (docs/mathematics.md §3)."""

from ..jaxed import jax


def descend(A, G_K, G_Q, P, Q, product, transpose, stage=None):
    """(A, G_K, G_Q) after a step with P = η Γ g and Q = η g Γ, second-order terms included.

    `product` and `transpose` are those of the arrays' layout; `stage(f, *arrays)` computes f once (`lanes.stages`).
    """
    T = transpose
    stage = stage or _at_once
    PA = stage(lambda P, A: product(P, T(A)), P, A)
    AQ = stage(lambda A, Q: product(T(A), Q), A, Q)
    GQ, PG = stage(product, G_K, Q), stage(product, P, G_Q)
    return (
        stage(lambda A, GQ, PG, PA, Q: A - (GQ + PG) + product(PA, Q), A, GQ, PG, PA, Q),
        stage(lambda G, PA, PG, P: G - (PA + T(PA)) + product(PG, T(P)), G_K, PA, PG, P),
        stage(lambda G, AQ, GQ, Q: G - (AQ + T(AQ)) + product(T(Q), GQ), G_Q, AQ, GQ, Q),
    )


def inverse_length(square):
    """1/√square; 0 where there is nothing to divide."""
    jnp = jax().numpy
    return jnp.where(square > 0, 1 / jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _at_once(f, *arrays):
    return f(*arrays)
