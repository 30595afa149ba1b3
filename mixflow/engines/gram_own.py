"""A read-out of the user's own on the Gram engine: its gradient on lanes, its field for a flow, its answers along a history."""

import numpy as np

from ..jaxed import float64, jax
from . import loss as losses
from .lanes import LANES


def own_gradient(engine, state, weight):
    """∂loss/∂w (F, lanes) of every value vector, g = ∂loss/∂A (F, F, lanes), and ∂loss by the read-out's parameters."""
    J, task, network = jax(), engine.population, engine.network
    weight = J.numpy.broadcast_to(weight, (len(task.labels), LANES))

    def one(state, weight):
        answer = network.respond(state, task)[1]
        return J.numpy.sum(weight * losses.cost(task.loss, task.labels, answer, J.numpy))

    def total(w, A, own):
        lanes = {name: J.numpy.moveaxis(x, -1, 0) for name, x in own.items()}
        lanes |= {"w": _by_lane(w), "A": _by_lane(A)}
        lanes["w"] = lanes["w"].reshape(LANES, engine.heads, -1, w.shape[1])
        return J.numpy.sum(J.vmap(one, in_axes=(0, -1))(lanes, weight))

    own = {name: state[name] for name in network.parameters}
    g_w, g, g_own = J.grad(total, argnums=(0, 1, 2))(state["w"], state["A"], own)
    return list(g_w), g, g_own


def _by_lane(x):
    """(…, a·LANES) -> (LANES, a, …)."""
    return jax().numpy.moveaxis(x.reshape(*x.shape[:-1], -1, LANES), (-1, -2), (0, 1))


def own_functions(network, task):
    """surface and loss_of of a field (`gated.GatedField`); without neurons there is one gate, which is always on."""
    smooth = network.neurons is None

    def surface(xp, c, parts):
        if smooth:
            return xp.ones((*parts["A"].shape[:-3], 1))
        return _each(xp, lambda parts: network.respond(parts, task)[0].ravel(), parts)

    def loss_of(xp, c, on, parts):
        def one(parts, on):
            answer = network.respond(parts, task, None if smooth else on)[1]
            cost = losses.cost(task.loss, task.labels, answer, jax().numpy)
            return jax().numpy.sum(cost * c["weight"], axis=-1)

        return _each(xp, one, parts, on)

    return surface, loss_of


def _each(xp, f, parts, *more):
    """f of one state, or of each of many, in NumPy or in JAX."""
    if xp is not np:
        return f(parts, *more)
    with float64():
        lead = parts["A"].shape[:-3]
        flat = jax().tree.map(lambda x: x.reshape(-1, *x.shape[len(lead) :]), (parts, *more))
        found = np.asarray(jax().vmap(f)(*flat))
    return found.reshape((*lead, *found.shape[1:]))


def own_response(network, task, history):
    """z and the answer along a history, time first."""
    with float64():
        seen = {name: history[name] for name in ("w", "A", *network.parameters)}
        z, answer = jax().jit(jax().vmap(lambda state: network.respond(state, task)))(seen)
        return np.asarray(z), np.asarray(answer)
