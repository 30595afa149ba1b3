"""What the handbook makes at build time: pictures, still and live, the commands, the map of rooms, source pages, mathematics."""

from . import commands, docstrings, live, mathematics, pictures, rooms, sources, typeset


def setup(app):
    for part in (commands, docstrings, live, mathematics, pictures, rooms, sources, typeset):
        part.setup(app)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
