"""Many networks at once, and networks with parts changed."""

import mixflow as mf


def train_batch(task, networks, method, **options):
    """One dataset of all `networks`, with a leading `run` dimension."""
    found = mf.train_many(task, networks, method, **options)
    return getattr(found, "dataset", found)


def changed(transformer, **options):
    """The transformer with options of its architecture changed."""
    if options.pop("activate", "after") == "before":
        options["relu_per_query"] = True
    if "values" in options:
        options["value_dimension"] = options.pop("values")
    return mf.Variant(transformer, **options)
