"""What an attacker hands over: anything at all, and what is nearly right.

Values are drawn as expressions and made by `made` only at the attack: some of them can be neither shown nor compared.
"""

import datetime
import decimal
import fractions
import itertools
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import mixflow as mf


class Hostile:
    """Every question is answered with an error."""

    def _refuse(self, *_):
        raise RuntimeError("I do not answer")

    __repr__ = __str__ = __iter__ = __len__ = __eq__ = __bool__ = __float__ = __int__ = __getitem__ = __array__ = (
        _refuse
    )
    __hash__ = object.__hash__


NAMES = {
    "datetime": datetime, "decimal": decimal, "fractions": fractions, "itertools": itertools, "math": math, "np": np, "mf": mf,
    "Hostile": Hostile,
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A value to be made when it is needed."""

    text: str

    def __repr__(self):
        return self.text


def made(drawn):
    """The value of what was drawn, expressions inside lists and tables included."""
    if isinstance(drawn, Expression):
        return eval(drawn.text, dict(NAMES))
    if isinstance(drawn, (list, tuple)):
        return type(drawn)(made(x) for x in drawn)
    return {key: made(x) for key, x in drawn.items()} if isinstance(drawn, dict) else drawn


def expressions(text):
    """One of the expressions in a text, separated by semicolons."""
    return st.sampled_from([Expression(" ".join(one.split())) for one in text.split(";")])


numbers = expressions("""
    0; 1; -1; 2; 3; 5; 10**9; 2**63; 2**64; -(2**64); 10**400; 10**5000; 0.1; 0.5; -0.0; 1e-320; 1e308; -1e308;
    math.nan; math.inf; -math.inf; True; False; np.int8(3); np.uint64(2**64 - 1); np.float16(0.5);
    np.float32(math.nan); np.longdouble(1) / 3; np.bool_(True); fractions.Fraction(1, 3); fractions.Fraction(10**400);
    decimal.Decimal("0.1"); 1j""")
things = expressions("""
    None; object(); Hostile(); Hostile; int; len; b"bytes"; bytearray(3); {1, 2}; frozenset("ab"); {}; {"kind":
    "mixture"}; {1: 2}; []; [[]]; [None]; (); ("c1", 1.0); [["c1", 1, 2]]; range(3); range(10**12); slice(3);
    datetime.date(2026, 1, 1); np.array(3); np.zeros(0); np.ones(2); np.eye(2); np.eye(4); np.full((2, 2), math.nan);
    np.array(["c1"]); np.zeros((2, 2, 2)); np.array([None], object); np.array([[1, "a"]], object);
    np.datetime64("2026-01-01"); [Hostile()]; [[Hostile()]]; {"kind": Hostile()}; ""; "c1"; "inf"; "nan"; "\\0";
    "\\ud800"; "a\\nb"; "x" * 10**4; "mixture"; "logistic"; "loss:0.1"; "loss:"; ":"; "gram"; "../.."; "/dev/zero";
    mf.Mixture(); mf.Transformer(); mf.GradientDescent(); mf.GradientFlow(); mf.Until("loss", 0.1); mf.Mixture;
    mf.SpecError("x"); itertools.count(); iter([1, 2]); map(int, "ab"); zip([1], [2]); (x for x in "ab");
    itertools.repeat("c1")""")
scalars = st.one_of(numbers, st.integers(), st.floats(), st.text(max_size=8))
anything = st.one_of(
    scalars,
    things,
    st.recursive(
        scalars | things,
        lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=4), inside, max_size=3),
        max_leaves=8,
    ),
)

FEATURES = ("c1", "c2", "v1", "v2")
features = st.lists(st.sampled_from(FEATURES), max_size=4) | st.just(FEATURES)
token = st.tuples(st.sampled_from([*FEATURES, "x"]), st.sampled_from([1, -1, 0.5, 0]) | scalars)
atoms = st.lists(st.lists(token | token | anything, max_size=4), max_size=4)
weights = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, -0.5]), max_size=4)
small = st.integers(-1, 6)
share = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, -0.1])

# What is nearly right, by the name of the field.
NEARLY = {
    **dict.fromkeys(
        ("classes", "seed", "batch_seed", "batch_size", "signals", "count", "kinds", "images", "heads", "layers"), small
    ),
    **dict.fromkeys(("mlp_width", "steps", "save_every", "samples", "test_samples"), small),
    **dict.fromkeys(
        ("test_fraction", "probability", "coherence", "sigma", "omega", "bias", "learning_rate", "neurons"), share
    ),
    **dict.fromkeys(("threshold", "limit", "momentum", "weight_decay", "value_scale"), share),
    **dict.fromkeys(("priors", "probabilities", "held_out"), weights),
    **dict.fromkeys(("features", "identifiers", "watched"), features),
    "gram": expressions(
        "np.eye(4); 0.5 * np.eye(4) + 0.5; np.eye(3); -np.eye(4); np.eye(4).tolist(); [[1, 0], [0, 1]]"
    ),
    "atoms": atoms,
    "labels": st.lists(st.sampled_from([1, -1, 0, 2, 0.5]), max_size=4),
    "hard": st.lists(st.booleans(), max_size=4),
    "names": st.lists(st.text(max_size=5), max_size=4),
    "query": st.lists(token, max_size=4),
    "loss": st.sampled_from(["logistic", "exponential", "linear", "squared", "softmax"]),
    "n": st.integers(0, 60),
    "pairs": st.sampled_from(["all", "own", "cross"]),
    "parts": st.lists(small, max_size=3),
    "rule": st.sampled_from(["pair", "parity", "adam"]),
    "positive": share | weights,
    "values": st.lists(scalars, max_size=3) | small,
    "dimension": st.integers(0, 20),
    "digits": st.lists(st.integers(-1, 10), max_size=3),
    "task": expressions("mf.Mixture(); mf.Mixture(1); mf.Mixture(12); mf.Mixture(2).sample(9, seed=1)"),
    "width": small | st.just(math.inf),
    "until": share | expressions("mf.Until('loss', 0.1)"),
    "rtol": st.sampled_from([1e-9, 1e-2, 0.0]),
    "save_at": small | weights,
    "method": expressions("mf.GradientFlow(); mf.GradientDescent(); mf.Optimizer(kind='adam')"),
    "quantity": st.sampled_from(["loss", "easy_margin"]),
    "kind": st.sampled_from(["adam", "sgd"]),
}
