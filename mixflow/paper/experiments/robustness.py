"""Beyond the theorem: does the three-stage picture survive when the task, the model or the optimiser is another one?"""

import math
from dataclasses import dataclass

import numpy as np

import mixflow as mf

from ..check import between, equal, paper, shown, theory
from ..figures.robustness import plot_variant
from . import robustness_models, robustness_tasks
from .robustness_rows import HELD, INFINITE, Row
from .robustness_traps import floor
from .robustness_words import LEARNED, MOST, facts, in_words, words
from .shape import Experiment, Picture, Results, Setting, in_turn

BASE, STANDARD = robustness_tasks.BASE, robustness_models.STANDARD
# Each has ROWS, MORE (what the full version adds) and SEARCHES (for thresholds).
SOURCES = (robustness_tasks, robustness_models)
ROWS = [row for source in SOURCES for row in source.ROWS]
MORE = [row for source in SOURCES for row in source.MORE]
SEARCHES = [dial for source in SOURCES for dial in source.SEARCHES]

LONG = ("token noise", robustness_tasks.K4)  # variants whose rows take seconds

CONFIG = {
    "seeds": Setting(10, "the least that tells 'nearly always' from 'mostly'", full=30),
    "halvings": Setting(4, "finds a threshold to a sixteenth of the range", full=7),
    "more": Setting(False, "the quick version tries a few strengths of each variant", full=True),
    "variants": Setting([], "all of them; a list of names runs these and the base case"),
}


def run(settings, progress, each=in_turn):
    """Every row over all seeds, and the searches for thresholds; what shares a program is one part."""
    for name in settings["variants"]:
        mf.checks.one_of("variants", name, tuple(dict.fromkeys(row.variant for row in ROWS)))

    def chosen(name):
        return not settings["variants"] or name in settings["variants"]

    rows = [row for row in [*ROWS, *(MORE if settings["more"] else [])] if row.group == "base" or chosen(row.variant)]
    needed = {row.base for row in rows} | {BASE}
    rows = [row for row in rows if row.group != "base" or row.variant in needed]
    order = {variant: i for i, variant in enumerate(dict.fromkeys(row.variant for row in rows))}
    rows.sort(key=lambda row: (order[row.variant], row.strength if not isinstance(row.strength, str) else 0))
    searches = [dial for dial in SEARCHES if chosen(dial.variant)]
    parts = in_parts(rows, searches, settings)
    done = each(compute, parts, lambda count: progress(count, len(parts)))
    found = {(part.variant, strength): of for part, (judged, _) in zip(parts, done) for strength, of in judged.items()}
    outcomes = [found[row.variant, row.strength] for row in rows]
    limits = [of.pop() if row.infinite else None for row, of in zip(rows, outcomes, strict=True)]
    thresholds = {part.variant: threshold for part, (_, threshold) in zip(parts, done)}
    series = {"rows": table_of(rows, outcomes).assign(limits_of(limits))}
    if searches:
        series["thresholds"] = thresholds_of(searches, [thresholds[dial.variant] for dial in searches])
    return Results(series=series, tables=words(series))


@dataclass(frozen=True)
class Part:
    """Rows of a variant at these strengths and, if halvings are given, its search; what another process needs to know."""

    variant: str
    strengths: tuple
    seeds: int
    full: bool
    halvings: int | None = None


def in_parts(rows, searches, settings):
    """The rows of each variant with its search, long ones first; standard transformers, each with its own program, one by one."""
    searched, strengths = {dial.variant for dial in searches}, {}
    for row in sorted(rows, key=lambda row: (row.group != STANDARD, row.variant not in LONG)):
        strengths.setdefault((row.variant, row.strength if row.group == STANDARD else None), []).append(row.strength)
    strengths |= {(variant, None): [] for variant in searched if (variant, None) not in strengths}
    seeds, full, halvings = (settings[name] for name in ("seeds", "more", "halvings"))
    return [
        Part(variant, tuple(at), seeds, full, halvings if variant in searched else None)
        for (variant, _), at in strengths.items()
    ]


def compute(part):
    """({strength: outcomes over the seeds and, where there is one, of the infinitely wide network}, what the search gave)."""
    seeds, judged, threshold = range(part.seeds), {}, None
    for row in [*ROWS, *MORE]:
        if row.variant == part.variant and row.strength in part.strengths:
            judged[row.strength] = row.run([*seeds, INFINITE] if row.infinite else seeds, part.full)
    if part.halvings is not None:
        (dial,) = (dial for dial in SEARCHES if dial.variant == part.variant)
        threshold = search(dial, seeds, part.full, part.halvings)  # (holds, breaks, what happens there)
    return judged, threshold


def holds(outcomes):
    """Whether the picture holds: most seeds learn the hard samples, and most show the three stages in order."""
    n = len(outcomes)
    learned = sum(o.hard_accuracy >= LEARNED for o in outcomes)
    return learned >= MOST * n and sum(map(in_order, outcomes)) >= MOST * n


def in_order(outcome):
    """Whether neurons, attention and convergence were all found, one after the other; convergence may still go on."""
    stages = outcome.stages
    if not all(stage.found for stage in stages):
        return False
    return stages[1].complete and stages[0].start <= stages[1].start <= stages[2].start


def search(dial, seeds, full, halvings):
    """(the largest strength at which the picture was seen to hold, the smallest at which it was not or NaN, how it broke).

    The lower end of the search is the base case itself. Between the two answers the picture may break in any way; bisection
    takes it to break once.
    """
    low, high = dial.search
    worst = dial.run(seeds, full, strength=high)
    if holds(worst):
        return high, math.nan, ""
    for _ in range(halvings):
        middle = (low + high) / 2
        found = dial.run(seeds, full, strength=middle)
        if holds(found):
            low = middle
        else:
            high, worst = middle, found
    row = table_of([dial.row(high)], [worst]).isel(row=0)
    return low, high, in_words(facts(row), str(row.reason.item()))


def table_of(rows: list[Row], found):
    """Every row and seed as a dataset; separation times also relative to the mean of the row's base."""
    import xarray

    most = max(map(len, found))

    # A row may have fewer seeds than others: what is missing is NaN, or -1 where a number is 0 or 1.
    def fill(values, missing):
        return [*values, *[missing] * (most - len(values))]

    def each(name):
        return np.array([fill([getattr(o, name, math.nan) for o in outcomes], math.nan) for outcomes in found], float)

    separation = each("separation")
    base = {row.variant: np.nanmean(T2) for row, T2 in zip(rows, separation) if np.isfinite(T2).any()}
    relative = separation / np.array([[base.get(row.base, math.nan)] for row in rows])
    signs = [fill([-1 if o.mechanism is None else int(o.mechanism) for o in outcomes], -1) for outcomes in found]
    seen = [fill([int(in_order(o)) for o in outcomes], -1) for outcomes in found]
    why = [next((_reason(o) for o in outcomes if not in_order(o)), "") for outcomes in found]
    dims = ("row", "seed")
    return xarray.Dataset(
        {
            "hard_accuracy": (dims, each("hard_accuracy"), {"long_name": "accuracy on the hard samples at the end"}),
            "separation": (dims, separation, {"long_name": "T2, when the hard samples' loss has halved for good"}),
            "relative": (dims, relative, {"long_name": "T2 divided by the mean T2 of the base"}),
            "in_order": (dims, np.array(seen), {"long_name": "1 three stages in order, 0 not, -1 no such seed"}),
            "mechanism": (dims, np.array(signs), {"long_name": "1 construction's signs, 0 others, -1 no such matrix"}),
            "silent": (dims, each("silent"), {"long_name": "share of hard samples with every neuron off at the end"}),
            "loss": (dims, each("loss"), {"long_name": "loss at the end"}),
            "reason": ("row", np.array(why, object), {"long_name": "why the first seed without three stages has none"}),
        },
        coords={
            "variant": ("row", [row.variant for row in rows]),
            "group": ("row", [row.group for row in rows]),
            "strength": ("row", [_dial(row.strength) for row in rows]),
            "says": ("row", [row.says for row in rows]),
            "seed": range(most),
        },
    )


def limits_of(limits):
    """What became of each row's infinitely wide network, as variables; NaN where there is none."""

    def each(read):
        return "row", np.array([math.nan if one is None else read(one) for one in limits], float)

    return {
        "limit_accuracy": each(lambda one: one.hard_accuracy),
        "limit_separation": each(lambda one: one.separation),
        "limit_in_order": each(in_order),
        "limit_loss": each(lambda one: one.loss),
        "limit": ("row", np.array(["" if one is None else one.limit for one in limits], object)),
        "limit_reason": (
            "row",
            np.array(["" if one is None or in_order(one) else _reason(one) for one in limits], object),
        ),
    }


def thresholds_of(searches, thresholds):
    import xarray

    holds_at, breaks_at, how = zip(*thresholds)
    return xarray.Dataset(
        {
            "holds": (
                "search",
                np.array(holds_at),
                {"long_name": "largest strength at which the picture was seen to hold"},
            ),
            "breaks": (
                "search",
                np.array(breaks_at),
                {"long_name": "smallest at which it was not; NaN if it always held"},
            ),
            "how": ("search", np.array(how, object), {"long_name": "what was seen at the smallest"}),
        },
        coords={"variant": ("search", [dial.variant for dial in searches])},
    )


def _dial(strength):
    return strength if isinstance(strength, str) else f"{strength:g}"


def _reason(outcome):
    missing = next((s for s in outcome.stages if not s.found), outcome.stages[1])
    return f"{missing.name}: {missing.evidence.get('reason', 'still running at the end')}"


def verdict(results):
    """What could be said beforehand: the base case, the floor of label noise, and what must be slower than the base."""
    data = results.series["rows"]
    base = facts(rows_of(data, BASE)[0])
    n = base["n"]
    stages = paper("the paper's stages in its own setting; every seed must show them")
    checks = [
        equal("base learned", f"base case: seeds of {n} that learn the hard samples", base["learned"], n, **stages),
        equal("base order", f"base case: seeds of {n} with the three stages in order", base["ordered"], n, **stages),
        equal(
            "base signs",
            f"base case: seeds of {n} with the construction's signs",
            base["mechanism"],
            n,
            **theory("the closed form's signs (docs/mathematics.md §9); that training finds them was seen", after=True),
        ),
    ]
    earliest = float(np.nanmin(data.separation.values))
    says, why = "the earliest separation of all rows and seeds", theory("nothing is separable at t = 0")
    checks.append(between("separation", says, earliest, 1e-9, None, **why))
    return [*checks, *_foreseen(data, n), *_trapped(data), *_every_row(data), *_thresholds(results.series)]


def rows_of(data, variant):
    """The rows of one variant, one by one."""
    return [data.isel(row=i) for i in np.flatnonzero(data.variant.values == variant)]


def _foreseen(data, n):
    """The floor of label noise, and the variants that must be slower than the base."""
    checks = []
    for row in rows_of(data, "label noise"):
        p, mean = float(row.strength.item()), float(row.loss.mean())
        if facts(row)["learned"] == n:
            entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
            says = f"label noise {p:g}: loss at the end above the entropy of the labels"
            floor = theory("no loss is below the entropy; above it at most 0.01, chosen", after=True)
            checks.append(between(f"floor {p:g}", says, mean - entropy, -1e-12, 0.01, **floor))
    for name, why in (
        ("label noise", "every gradient at F = 0 is 1 − 2p times the base's"),
        ("distractors", "every token's share of the average is 1/L"),
        ("repeated signals", "the identifier's share of the average is 1/L"),
    ):
        slower = [facts(row)["relative"][0] for row in rows_of(data, name)]
        slower = [x for x in slower if math.isfinite(x)]
        if slower:
            says = f"{name}: the smallest T2 of its rows, relative to the base case"
            checks.append(
                between(f"slower {name}", says, min(slower), 1.0, None, **theory(f"{why}, so learning is slower"))
            )
    return checks


def _trapped(data):
    """Infinitely wide networks that cannot learn, by theorem: the loss each is left with."""
    checks = []
    for row in (data.isel(row=i) for i in range(data.sizes["row"])):
        variant, strength = row.variant.item(), row.strength.item()
        if trap := floor(variant, strength):
            least, why = trap
            until = f"t = {HELD:g}" if row.limit.item() else "the end"
            says = f"{variant} {strength}, infinitely wide: loss at {until}, above {least:.6f}"
            basis = theory(f"{why} (docs/mathematics.md §13); how near it must come, 0.01, was chosen", after=True)
            checks.append(between(f"trap {variant} {strength}", says, row.limit_loss - least, -1e-9, 0.01, **basis))
    return checks


def _every_row(data):
    """Accuracy and relative separation time of every row."""
    checks = []
    for row in (data.isel(row=i) for i in range(data.sizes["row"])):
        f, name = facts(row), f"{row.variant.item()} {row.strength.item()}"
        checks.append(shown(f"{name} accuracy", f"{name}: hard accuracy, mean over seeds", f["accuracy"]))
        if math.isfinite(row.limit_accuracy):
            checks.append(shown(f"{name} infinite", f"{name}: hard accuracy at infinite width", row.limit_accuracy))
        for width, T2 in (("", f["T2"]), (" infinite", row.limit_separation.item())):
            if math.isfinite(T2):
                checks.append(shown(f"{name}{width} time", f"{name}: T2{' at infinite width' * bool(width)}", T2))
        mean, low, high = f["relative"]
        if math.isfinite(mean):
            known = {"low": low, "high": high, "over": f"{f['separated']} seeds, least to largest"}
            checks.append(shown(f"{name} T2", f"{name}: T2 relative to the base case", mean, **known))
    return checks


def _thresholds(series):
    """Between which strengths the picture breaks."""
    if "thresholds" not in series:
        return []
    checks, found = [], series["thresholds"]
    for name, good, bad in zip(found.variant.values, found.holds.values, found.breaks.values):
        broken = math.isfinite(bad)
        known = {"low": good, "high": bad, "over": "the bisection: holds, breaks"} if broken else {}
        says = f"{name}: strength at which the picture breaks" + ("" if broken else ": not up to here")
        checks.append(shown(f"threshold {name}", says, (good + bad) / 2 if broken else good, **known))
    return checks


def answer(results):
    """In how many settings the picture holds, at finite and at infinite width, and who is trapped there."""
    data = results.series["rows"]
    rows = [data.isel(row=i) for i in range(data.sizes["row"])]
    held = [facts(row)["holds"] for row in rows]
    wide = [bool(row.limit_accuracy >= LEARNED and row.limit_in_order == 1) for row in rows]
    there = np.isfinite(data.limit_accuracy.values)
    same = sum(a == b for a, b, known in zip(held, wide, there) if known)
    lost = [row.variant.item() for row, a, b, known in zip(rows, held, wide, there) if known and a and not b]
    return (
        f"In {sum(held)} of {len(rows)} settings most seeds of width 64 learn the hard samples in three stages, in order; the "
        f"infinitely wide network says the same in {same} of {there.sum()}. What only a finite width learns so: "
        f"{', '.join(dict.fromkeys(lost)) or 'nothing'}."
    )


def figures(results):
    """One figure for each variant: hard accuracy and relative separation time against strength."""
    data = results.series["rows"]
    bounds = {}
    if "thresholds" in results.series:
        found = results.series["thresholds"]
        bounds = {str(v): (a, b) for v, a, b in zip(found.variant.values, found.holds.values, found.breaks.values)}
    pictures = []
    for variant in dict.fromkeys(data.variant.values[data.group.values != "base"].tolist()):
        part = data.isel(row=np.flatnonzero(data.variant.values == variant))
        kept = sum(facts(part.isel(row=i))["holds"] for i in range(part.sizes["row"]))
        says = f"{variant}: {part.says.values[0]}. The picture holds in {kept} of {part.sizes['row']} settings"
        where = bounds.get(variant)
        if where and math.isfinite(where[1]):
            says += f" and breaks between {where[0]:.3g} and {where[1]:.3g} (shaded)"
        pictures.append(
            Picture(
                variant.replace(", ", "-").replace(" ", "-"),
                f"{says[0].upper()}{says[1:]}.",
                f"Two panels over the strength of {variant}: accuracy on the hard samples of every seed, and the separation "
                "time relative to the base case from the least to the largest seed; "
                f"{kept} of {part.sizes['row']} settings keep the picture.",
                plot_variant(part, variant, where),
            )
        )
    return pictures


EXPERIMENT = Experiment(
    name="robustness",
    title="Beyond the theorem: what the three stages survive",
    question="Does the three-stage picture survive other tasks, models and optimisers?",
    section="§8, General finite tasks",
    config=CONFIG,
    run=run,
    verdict=verdict,
    figures=figures,
    answer=answer,
    seconds=(100.0, 600.0),
    in_parts=True,
)
