"""The numbers of the README, the findings, the story and the page for practitioners are those of the stored record."""

import json
import re
from pathlib import Path

import blocks
import numpy as np
import pytest

from mixflow.paper.report.numbers import leaves

ROOT = Path(__file__).parents[1]
RECORD = json.loads((ROOT / "docs" / "numbers.json").read_text())
PAGES = ["README.md", "docs/findings.md", "docs/proofs.md", "docs/story.md", "docs/practice.md", "docs/robustness.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "papers").glob("*.md"))
NUMBER = re.compile(r"(?<![\w.^·/−-])[−-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[−-]?\d+)?(?![\w^]|\.\d)")
# Digits that say no result: the years of the papers, the name of a standard, the width and rate of a table's heading, what a step
# or a solver is set to, how many strings of six letters there are, a version of Python.
SETTINGS = {3.11, 126, 754, 4800, 2021, 2023, 2024, 2025, 0.004, 0.002, 0.001, 160, 2000, 6000, 17000, 20000}


def quoted(text):
    """The numbers of a page with at least three digits, outside code, links and formulas: (text, value, whether in per cent)."""
    text = blocks.FENCE.sub("", text)
    text = re.sub(r"`[^`]*`|arXiv [\d.]+|\]\([^)]*\)|\$\$.*?\$\$|\$[^$]*\$|^:.*$|\{\w+\}", " ", text, flags=re.S | re.M)
    for match in NUMBER.finditer(text):
        shown = match[0].replace("−", "-").replace(",", "")
        if len(re.sub(r"e.*|\D", "", shown).lstrip("0")) >= 3:
            yield match[0], shown, "%" in text[match.end() : match.end() + 40]


def known(shown, percent=False):
    """Whether a number of the record is this one, to the digits shown; a share counts in per cent as well."""
    value = float(shown)
    mantissa, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    if not power and mantissa.endswith("0") and "." not in mantissa:
        unit = 10.0 ** (len(mantissa) - len(mantissa.rstrip("0")))
    numbers = np.concatenate([NUMBERS, 100 * NUMBERS]) if percent else NUMBERS
    return bool((np.abs(numbers - abs(value)) <= 0.501 * unit).any())


NUMBERS = np.array(sorted({abs(x) for x in leaves(RECORD)}))
TABLES = [table for one in RECORD["report"].values() for table in one.get("tables", {}).values()]
ROWS = {f"| {' | '.join(row)} |" for table in TABLES for row in table}  # as they stand in the record, word for word


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_a_page_is_in_the_record(page):
    text = "\n".join(line for line in (ROOT / page).read_text().splitlines() if line not in ROWS)
    missing = [told for told, *shown in quoted(text) if float(shown[0]) not in SETTINGS and not known(*shown)]
    assert missing == [], f"{page}: {len(missing)} numbers are not in docs/numbers.json"


def test_the_tables_of_robustness_are_those_of_the_record():
    lines = (ROOT / "docs" / "robustness.md").read_text().splitlines()
    shown = [
        line for line in lines if line.startswith("| ") and not line.startswith(("| Setting |", "| Variant |", "| ---"))
    ]
    tables = RECORD["report"]["robustness"]["tables"]
    assert shown == [f"| {' | '.join(row)} |" for row in (*tables["answers"], *tables["thresholds"])]


def test_a_wrong_number_is_found():
    assert known("17.46")
    assert known("2144")
    assert not known("16.4545")
    assert not known("3136.5")
    wrong = [known(str(number)) for number in range(1000, 10_000, 7)]
    assert sum(wrong) < 0.03 * len(wrong)  # so many would pass by chance; of three digits a quarter
    assert [told for told, *_ in quoted("`a 12345` but 3,141 and −2.72, not 12 or 1.0")] == ["3,141", "−2.72"]


def test_every_element_of_the_paper_points_to_a_check():
    from mixflow.paper.report.elements import ELEMENTS, elements

    for element in ELEMENTS:
        assert element["status"] in ("same", "choice", "unknown")
        if "finding" in element:
            name, check = element["finding"]
            assert check in RECORD["report"][name]["checks"], element["part"]
    assert all(row["found"] in ("", "not run") for row in elements({}))
