"""Many networks at once, and networks with parts changed."""

from dataclasses import replace

import mixflow as mf


def train_batch(task, networks, method, **options):
    """One dataset of all `networks`, with a leading `run` dimension."""
    return mf.train_many(task, networks, method, **options).dataset


def changed(transformer, **options):
    """The transformer with options of its architecture changed."""
    return replace(transformer, **options)
