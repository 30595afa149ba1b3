"""The paper, element by element: what it says, what is done here, whether that is the same, and what came out.

The text of the paper is not at hand. What is known of it is what docs/mathematics.md marks: the task, the network, its start, the
training, Algorithm 1, the three stages, the experiments with K = 2, K = 3 and images, and what its reviewers describe.
Words in “…” are the paper's.
"""

import json
import pathlib

from .render import number

# part     a statement, figure, algorithm or setting
# says     what the paper says of it
# here     what is done here
# status   "same", "choice" (the paper leaves it open; with the reason) or "unknown" (its text does not tell us)
# finding  [experiment, check] whose measurement is the finding, if there is one
ELEMENTS = json.loads((pathlib.Path(__file__).parent / "elements.json").read_text())


def elements(records):
    """The rows of the table, each with what was found (from the records, by experiment) and the command."""
    return [_row(element, records) for element in ELEMENTS]


def _row(element, records):
    known = {key: element[key] for key in ("part", "says", "here", "status")}
    if "finding" not in element:
        return known | {"found": "", "command": ""}
    name, wanted = element["finding"]
    checks = {check["name"]: check for check in records[name]["checks"]} if name in records else {}
    check = checks.get(wanted)
    found = f"{check['sentence']}: {number(check['measured'])}" if check else "not run"
    return known | {"found": found, "command": f"mixflow reproduce --only {name}"}
