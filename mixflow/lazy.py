"""Public names that are imported on first use, so that `mixflow --help` needs no NumPy."""

import sys
from importlib import import_module


def exports(package, home):
    """The `__getattr__` and `__dir__` of `package` for the table `home` of public names and the module each lives in.

    A module of "" means that the name is a module of the package itself.
    """

    def getattr_(name):
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not home[name]:
            return import_module(f".{name}", package)
        value = getattr(import_module(f".{home[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    def dir_():
        return sorted(home)

    return getattr_, dir_
