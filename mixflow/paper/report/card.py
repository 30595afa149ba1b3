"""The reproducibility card: the seven things a reader must know to repeat a result, each with a link to its evidence."""


def card(report):
    """Seven rows: variable, answer, and the links (text, anchor in the page or file beside it) that prove it."""
    origin, experiments = report["provenance"], report["experiments"]
    sources = [source for record in experiments for source in record["sources"]]
    hardware = origin["hardware"]
    commit = origin["commit"]
    numbers = f"{len(experiments)} experiment{'s' * (len(experiments) != 1)}"
    outside = "; ".join(f"{s['name']} ({s['licence']})" for s in sources)
    return [
        (
            "Code",
            f"mixflow {origin['versions']['mixflow']}, commit {commit[:12] if len(commit) >= 40 else commit}, "
            "MIT licence; a checksum of the source that makes the numbers",
            [("code version", "#code"), ("commands", "#set-up")],
        ),
        (
            "Data",
            "The K-mixture population is listed exactly, atom by atom: nothing is drawn, so there is nothing to "
            "download." + (f" From outside: {outside}." if sources else ""),
            [("data and licences", "#data")],
        ),
        (
            "Splits",
            "; ".join(f"{s['name']}: {s['split'].split(';')[0]}" for s in sources)
            if sources
            else "None: training and evaluation use the whole population, whose loss and accuracy are exact.",
            [("splits", "#splits")],
        ),
        (
            "Hardware",
            f"{hardware['cpu']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB, {hardware['system']}; no GPU",
            [("hardware and time", "#hardware")],
        ),
        (
            "Software versions",
            ", ".join(f"{name} {version}" for name, version in origin["versions"].items()),
            [("versions", "#software")],
        ),
        (
            "Pseudocode",
            "The update that is computed, the three-stage algorithm and the gradient flow, in full",
            [("pseudocode", "#pseudocode")],
        ),
        (
            "Experiment set-up",
            f"{numbers}, every setting with its reason, every seed, every tolerance",
            [("settings", "#set-up"), *((record["title"], f"#{record['name']}") for record in experiments)],
        ),
    ]
