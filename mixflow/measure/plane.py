"""The attention features as points of a plane: the axis that separates the labels, and the widest one across it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import SpecError
from .separability import feature_points, max_margin

if TYPE_CHECKING:
    from ..networks.transformer import Transformer
    from ..tasks.finite import FiniteTask
    from ..types import Array


def separating_plane(
    task: FiniteTask, A: Array, *, samples: str = "hard", network: Transformer | None = None
) -> tuple[Array, Array, float]:
    """Coordinates (..., n', 2) of the samples' joint attention features along a trajectory A (time, head, F, F), and labels.

    The first axis is the normal of the best separating hyperplane at the end of the trajectory (through the origin, as the
    network needs it, see `separability`): the decision boundary is the line where the first coordinate is 0, and labels ±1
    lie on its two sides exactly when they are separated. The second is the direction of largest spread orthogonal to it.
    If the end is not separable, the first axis is the difference of the labels' means.

    Returns (points, labels, margin), margin = the exact maximum margin at the end, 0 if not separable.
    """
    points, labels = feature_points(task, A, samples=samples, network=network)
    if points.ndim < 3 or not points.size:
        raise SpecError(
            f"the points have shape {points.shape}: expected a trajectory A (time, head, F, F), and samples."
        )
    end = max_margin(points[-1], labels)
    normal = end.separator if end.separable else labels @ points[-1]
    length = np.linalg.norm(normal)
    normal = normal / length if length > 0 else np.eye(points.shape[-1])[0]
    across = (points - (points @ normal)[..., None] * normal).reshape(-1, points.shape[-1])
    second = np.linalg.eigh(across.T @ across)[1][:, -1]
    second = second * np.sign(second[np.abs(second).argmax()])  # a sign that does not flip between runs
    return np.stack([points @ normal, points @ second], axis=-1), labels, end.margin
