"""A lane's description refuses what could not work, and names the field."""

import os

import pytest

from heddle.core.errors import ConfigError
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from tests.helpers.echo_engine import KINDS, EchoSettings


def make_engine(name: str = "e", factory: str = "m:f", credits_total: int = 1) -> EngineSpec:
    return EngineSpec(name, factory, EchoSettings(), credits_total, KINDS)


@pytest.mark.parametrize("factory", ["module", ":f", "m:", "m:f()"])
def test_factory_needs_its_form(factory: str) -> None:
    with pytest.raises(ConfigError, match=r"EngineSpec\.factory of 'e'"):
        make_engine(factory=factory)


def test_credits_are_positive() -> None:
    with pytest.raises(ConfigError, match=r"EngineSpec\.credits_total"):
        make_engine(credits_total=0)


def test_settings_of_the_main_script_are_refused() -> None:
    settings = type("Settings", (), {"__module__": "__main__"})()
    with pytest.raises(ConfigError, match="move that class to a module"):
        EngineSpec("e", "m:f", settings, 1, KINDS)


def test_a_lane_has_engines_with_distinct_names() -> None:
    with pytest.raises(ConfigError, match="is empty"):
        LaneSpec("lane", ())
    with pytest.raises(ConfigError, match="has a name twice"):
        LaneSpec("lane", (make_engine(), make_engine()))


def test_threads_and_cores_exist() -> None:
    with pytest.raises(ConfigError, match=r"LaneSpec\.threads"):
        LaneSpec("lane", (make_engine(),), threads=0)
    beyond = max(os.sched_getaffinity(0)) + 1
    with pytest.raises(ConfigError, match=r"LaneSpec\.cpus"):
        LaneSpec("lane", (make_engine(),), cpus=(beyond,))
