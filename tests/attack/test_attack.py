"""A short attack in every run of the suite; `make attack` is the long one."""

import os
import pathlib

import attackers
import long
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = (
    "specification",
    "table",
    "toml file",
    "command line",
    "run file",
    "sealed file",
    "page request",
    "page message",
    "forged run",
    "sweep",
    "sweep folder",
    "report",
    "forged proof",
    "kill",
    "Ctrl-C",
)
FEWER = {"forged run": 12, "sweep folder": 20, "report": 15, "kill": 2, "Ctrl-C": 1}  # they write files or run programs


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    here = os.getcwd()
    found = attackers.everyone(tmp_path_factory.mktemp("attack"))
    yield found
    found["page message"].keywords["served"].close()
    os.chdir(here)


@pytest.mark.parametrize("name", NAMES)
def test_answered_by_a_result_or_one_sentence(everyone, name):
    @settings(max_examples=FEWER.get(name, 60), suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def attack(data):
        everyone[name](data)

    attack()


def test_every_attacker_is_called(everyone):
    assert set(everyone) == set(NAMES)


def test_the_handbook_has_the_counts_of_every_attacker(tmp_path):
    page = pathlib.Path(__file__).parents[2] / "docs" / "trust.md"
    assert set(long.ATTACKS) == set(NAMES)
    assert all(f"| {name}: {what} |" in page.read_text() for name, (_, what, _) in long.ATTACKS.items())
    copy = tmp_path / "trust.md"
    copy.write_text(page.read_text())
    long.record(copy, long.table({(name, verdict): 1234 for name in NAMES for verdict in long.VERDICTS}), "told")
    assert copy.read_text().count("| 2,468 | 1,234 | 1,234 |") == len(NAMES)
    again = copy.read_text()
    long.record(copy, long.table({(name, verdict): 1234 for name in NAMES for verdict in long.VERDICTS}), "told")
    assert copy.read_text() == again
