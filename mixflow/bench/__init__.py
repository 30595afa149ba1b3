"""How fast is it here: ratios measured side by side on the user's machine, and how cost grows (`mixflow bench`)."""

from .table import bench as bench

__all__ = ["bench"]
