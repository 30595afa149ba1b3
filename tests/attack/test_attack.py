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
)


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    here = os.getcwd()
    yield attackers.everyone(tmp_path_factory.mktemp("attack"))
    os.chdir(here)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answered_by_a_result_or_one_sentence(everyone, name, data):
    everyone[name](data)


def test_every_attacker_is_called(everyone):
    assert set(everyone) == set(NAMES)
