"""Every name that a dataset or the weights of a run can have (docs/schema.md), and which are thereby taken."""

# long_name and unit of every variable that any engine measures; what ends in _test is of the held-out samples.
LONG_NAMES = {
    "time": ("time, learning rate × step", "units of time"),
    "step": ("number of updates", "1"),
    "loss": ("mean loss", "nats"),
    "loss_easy": ("mean loss of the easy samples", "nats"),
    "loss_hard": ("mean loss of the hard samples", "nats"),
    "accuracy": ("share of right answers, a tie counts as half", "1"),
    "accuracy_easy": ("share of right answers among the easy samples", "1"),
    "accuracy_hard": ("share of right answers among the hard samples", "1"),
    "margin": ("margin y·F of every sample", "1"),
    "z": ("input of every neuron, off at or below 0", "1"),
    "w": ("products of the neurons with the features", "1"),
    "A": ("attention score of key and query", "nats"),
    "G_K": ("products of keys", "nats"),
    "G_Q": ("products of queries", "nats"),
    "G_QQ": ("products of queries of two heads that share their keys", "nats"),
    "G_V": ("products of values, where w is a product", "1"),
    "N": ("squared length of the sum of the neurons behind the values", "1"),
    "bias": ("trained bias", "1"),
    "read_out": ("trained read-out of every value", "1"),
    "offset": ("trained offset θ of the answer", "1"),
    "w_sector": ("neurons of head + on one identifier and one signal", "1"),
    "A_sector": ("attention scores of head + by sector", "nats"),
    "G_K_sector": ("products of keys of head + by sector", "nats"),
    "G_Q_sector": ("products of queries of head + by sector", "nats"),
    "G_QQ_sector": ("products of queries of two heads by sector", "nats"),
    "G_V_sector": ("products of values of head + by sector", "1"),
    "attention": ("mean attention between identifiers and signals", "1"),
    "probe_signal": ("how well each signal can be read off, R²", "1"),
    "probe_answer": ("how well the label of hard samples can be read off, R²", "1"),
    "label": ("label y", "1"),
    "hard": ("whether the plain vote is wrong", "1"),
    "probability": ("probability of the sample", "1"),
    "least_loss": ("least mean loss that any answer reaches", "nats"),
    "event_time": ("when a neuron switched", "units of time"),
}
AXES = (
    "run",
    "save",
    "event",
    "head",
    "head_pair",
    "value",
    "feature",
    "key",
    "query",
    "atom",
    "token",
    "layer",
    "depth",
)
OF_SECTORS = ("sector", "kind", "key_kind", "query_kind", "atom_type", "token_type", "positive_others", "multiplicity")
OF_PROBES = ("signal", "pair", "key_token", "query_token")
OF_SIDES = tuple(f"{name}_{side}" for name in ("sample", "image") for side in ("train", "test"))
OF_SPLITS = tuple(f"{side}_{name}" for name in ("images", "index") for side in ("train", "test"))
OF_MEMBERS = ("width", "omega", "seed", "model", "diverged_step", "events")
WEIGHTS = ("W_K", "W_Q", "W_KQ", "W_V", "value_neurons", "embedding", "weights", "optimizer")  # of a state or an export
BEGINNINGS, ENDINGS = ("event_", "final_"), ("_test", "_velocity", "_memory", "_sector")


def taken(name, beside=()):
    """Whether a name means something already: in a dataset, among weights, or as a numbered axis, also of those `beside` it."""
    stem, _, number = name.rpartition("_")
    known = {*LONG_NAMES, *AXES, *OF_SECTORS, *OF_PROBES, *OF_SIDES, *OF_SPLITS, *OF_MEMBERS, *WEIGHTS}
    return (
        name in known
        or name.startswith(BEGINNINGS)
        or name.endswith(ENDINGS)
        or (number.isdecimal() and (stem in known or stem in beside or taken(stem)))
    )
