"""Functions of the user's, by name: a file says which one it was trained with, and what its code was, but never brings it."""

import functools
import hashlib
import inspect
import sys
import types

import numpy as np

from ..errors import SpecError

_KNOWN: dict[str, dict[str, object]] = {}  # of this process: {name: {fingerprint when it was given: function}}


def known(function):
    """Remember a function, for files that name it."""
    _KNOWN.setdefault(named(function), {})[fingerprint(function)] = function


def named(function):
    """Its module and its name there."""
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__qualname__)}"


def found(name, code):
    """The function of a name whose fingerprint is `code`; SpecError where none or more than one may be meant.

    Python's versions compile differently: a fingerprint of another one tells nothing, and then the name must be unique.
    """
    candidates = list(_KNOWN.get(str(name), {}).values())
    fix = "give the one it was trained with, mf.load(path, network=mf.Network(answer, …))"
    if not candidates:
        raise SpecError(
            f"the run has the read-out {name}, which no file brings: make it with mf.Network(answer, …) first, or {fix}."
        )
    if str(code).partition(":")[0] == _version():
        same = [function for function in candidates if fingerprint(function) == code]
        if not same:
            raise SpecError(f"the run has the read-out {name}, which is another function here: {fix}.")
        return same[-1]
    if len(candidates) > 1:
        raise SpecError(f"the run has the read-out {name}, a name of {len(candidates)} functions here: {fix}.")
    return candidates[0]


def fingerprint(function):
    """Python's version and a digest of what a function does: its code, its defaults, and the values it finds around itself."""
    home = getattr(function, "__globals__", None)
    return f"{_version()}:{hashlib.sha256(repr(_content(function, home, set())).encode()).hexdigest()[:16]}"


def _version():
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _content(x, home, above):
    """A printable stand-in for what a value is; functions of other modules than `home` count by their name."""
    if id(x) in above:
        return "itself"
    within = functools.partial(_content, home=home, above=above | {id(x)})
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return repr(x)
    if isinstance(x, types.CodeType):
        return x.co_code, x.co_names, [within(each) for each in x.co_consts]
    if isinstance(x, (tuple, list)):
        return [within(each) for each in x]
    if isinstance(x, (set, frozenset)):
        return sorted(map(repr, map(within, x)))
    if isinstance(x, dict):
        return [(within(key), within(value)) for key, value in x.items()]
    if inspect.isfunction(x) and (x.__globals__ is home or x.__closure__):
        around = [within(value) for cell in x.__closure__ or () for value in _held(cell)]
        outside = [(name, within(home[name])) for name in _names(x.__code__) if x.__globals__ is home and name in home]
        return within(x.__code__), around, outside, within(x.__defaults__), within(x.__kwdefaults__)
    if isinstance(x, functools.partial):
        return within(x.func), within(x.args), within(x.keywords)
    if inspect.ismethod(x):
        return within(x.__func__), within(x.__self__)
    if hasattr(x, "__array__") and not isinstance(x, type):
        x = np.asarray(x)
        return x.shape, x.dtype.str, x.tobytes()
    if name := getattr(
        x, "__qualname__", getattr(x, "__name__", None)
    ):  # a module, a class, a function of another module
        return getattr(x, "__module__", ""), name
    return type(x).__qualname__, within(getattr(x, "__dict__", {}))


def _held(cell):
    try:
        return [cell.cell_contents]
    except ValueError:  # a name that is not bound yet
        return []


def _names(code):
    """Every name that a code object looks up outside, inner functions included."""
    inner = [name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each)]
    return sorted({*code.co_names, *inner})
