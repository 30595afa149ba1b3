"""What the robustness table's numbers say, in plain words."""

import math

import numpy as np

from .robustness_traps import floor
from .shape import Table

LEARNED = 0.99  # hard accuracy from which a seed has learned
MOST = 0.9  # share of the seeds that must agree


def facts(row):
    """One row of the dataset in plain values."""
    there = row.in_order.values >= 0
    row = row.isel(seed=there)
    n = int(there.sum())
    relative = row.relative.values[np.isfinite(row.relative.values)]
    learned, ordered = int((row.hard_accuracy >= LEARNED).sum()), int(row.in_order.sum())
    mechanism = row.mechanism.values
    return {
        "n": n,
        "learned": learned,
        "ordered": ordered,
        "accuracy": float(row.hard_accuracy.mean()),
        "relative": (relative.mean(), relative.min(), relative.max()) if len(relative) else (math.nan,) * 3,
        "separated": int(np.isfinite(row.separation).sum()),
        "T2": float(np.nanmean(row.separation)) if np.isfinite(row.separation).any() else math.nan,
        "mechanism": None if (mechanism < 0).any() else int(mechanism.sum()),
        "silent": float(row.silent.mean()),
        "holds": learned >= MOST * n and ordered >= MOST * n,
    }


def in_words(f, reason):
    """The row's answer in plain words."""
    if f["holds"]:
        return "the picture holds"
    if f["learned"] >= MOST * f["n"]:
        late = "stopped early" in reason
        return f"learned, but {'not finished at the end of the run' if late else 'not in three stages'} ({reason})"
    who = f"{f['n'] - f['learned']} of {f['n']} seeds do not learn" if f["learned"] else "no seed learns"
    silent = f"; every neuron is off on {f['silent']:.0%} of them" if f["silent"] > 0 else ""
    return f"breaks: {who} the hard samples{silent}"


def at_infinity(row):
    """What becomes of the infinitely wide network, in plain words."""
    accuracy, T2 = row.limit_accuracy.item(), row.limit_separation.item()
    if math.isnan(accuracy):
        return "–"
    _, trap = floor(row.variant.item(), row.strength.item()) or (None, "")
    why = row.limit.item() or trap
    when = f", T2 = {T2:.0f}" if math.isfinite(T2) else ""
    if accuracy < LEARNED:
        return f"breaks: hard accuracy {accuracy:.3f}" + (f"; {why}" if why else "")
    if row.limit_in_order.item():
        return f"holds{when}" + (f"; {why}" if why else "")
    return f"learned{when}, but not in three stages ({row.limit_reason.item()})"


def words(series):
    """Every setting and what became of it, and the thresholds, as the page shows them."""
    rows, data = [], series["rows"]
    for i in range(data.sizes["row"]):
        row = data.isel(row=i)
        f = facts(row)
        mean, low, high = f["relative"]
        ratio = f"{mean:.2f} ({low:.2f}–{high:.2f})" if math.isfinite(mean) else "–"
        T2 = f"{f['T2']:.0f}" + ("" if f["separated"] == f["n"] else f" ({f['separated']} seeds)")
        signs = "–" if f["mechanism"] is None else f"{f['mechanism']}/{f['n']}"
        rows.append(
            (
                f"{row.variant.item()}: {row.strength.item()}",
                f"{f['learned']}/{f['n']}",
                f"{f['accuracy']:.3f}",
                f"{f['ordered']}/{f['n']}",
                T2 if f["separated"] else "–",
                ratio,
                signs,
                in_words(f, str(row.reason.item())),
                at_infinity(row),
            )
        )
    columns = (
        "Setting",
        "Learned",
        "Hard accuracy",
        "Stages in order",
        "T2",
        "T2 / base",
        "Signs",
        "Answer",
        "Infinite width",
    )
    caption = (
        "Seeds that learn the hard samples (accuracy at least 0.99), that show the three stages in order, that have the "
        "construction's signs; T2, when half of the hard samples' loss is gone, also relative to the base case, mean "
        "(least to largest seed); last, what becomes of the infinitely wide network"
    )
    tables = [Table("answers", caption, columns, tuple(rows))]
    if "thresholds" in series:
        lines = []
        for one in (series["thresholds"].isel(search=i) for i in range(series["thresholds"].sizes["search"])):
            broken = math.isfinite(one.breaks.item())
            where = f"{one.breaks.item():.4g}" if broken else "not up to there"
            lines.append((one.variant.item(), f"{one.holds.item():.4g}", where, str(one.how.item())))
        caption = (
            "Where the picture breaks: found by bisection; it holds at the first strength, it does not at the second"
        )
        tables.append(Table("thresholds", caption, ("Variant", "Holds at", "Breaks at", "There"), tuple(lines)))
    return tuple(tables)
