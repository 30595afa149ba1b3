"""Flow through kinks: a solver for any field that is affine in its gates, by Filippov's convention; knows no transformer.

A `Field` jumps where one of its surfaces z_i(y) passes 0. `solve` follows it exactly to its tolerance: inside a mode (which
gates are on, off or sliding) by a Runge-Kutta pair of order 8, from mode to mode by locating every event and deciding the
gates of all surfaces reached there together. Time, if the field depends on it, is a component of y. Each function says
what it raises.

>>> import jax.numpy as jnp
>>> import mixflow as mf
>>> def velocity(c, y, gates):  # a block (x, u) on a belt of speed 1: spring and Coulomb friction, sign(1 − u) = 2 gate − 1
...     return jnp.stack([y[1], -y[0] + c * (2 * gates[0] - 1)])
>>> def surface(c, y):
...     return jnp.stack([1 - y[1]])
>>> block = mf.filippov.Field(velocity=velocity, surface=surface, gates=("belt faster",), constants=0.5)
>>> result = mf.filippov.solve(block, [0.0, 1.0], 2.0)  # sticks until the spring pulls with the friction, x = 0.5
>>> [(round(e.time, 8), e.before, e.after) for e in result.events]
[(0.5, 'sliding', 'on')]
"""

from .certificate import certify
from .field import Field
from .flow import solve
from .gates import ChatteringError
from .result import Result
from .sensitivity import Sensitivity, sensitivity

__all__ = ["ChatteringError", "Field", "Result", "Sensitivity", "certify", "sensitivity", "solve"]
