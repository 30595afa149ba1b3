"""A short attack in every run of the suite; `make attack` is the long one."""

import os

import attackers
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
    "kill",
    "Ctrl-C",
)
FEWER = {"forged run": 12, "sweep folder": 20, "report": 15, "kill": 2, "Ctrl-C": 1}  # they write files or run programs


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    here = os.getcwd()
    yield attackers.everyone(tmp_path_factory.mktemp("attack"))
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
