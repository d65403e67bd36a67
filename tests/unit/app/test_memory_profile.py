"""A memory profile is read as it was written, and anything else is refused by name."""

import json

import pytest

from heddle.app.memory_profile import MemoryProfile, read_profile, write_profile
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import MeasuredCurves, RatePoint, StageMix
from heddle.engines.llm.lanes.lane_role import LaneRole

POINTS = (RatePoint(1.0, 0.9), RatePoint(2.0, 1.1))
PROFILE = MemoryProfile(
    MeasuredCurves({64: POINTS, 128: POINTS}, POINTS),
    StageMix(2.0, 1.0),
    "hyde",
    "m-1",
    "a CPU",
    (LaneRole.PREFILL, LaneRole.DECODE),
)


def test_it_is_read_as_it_was_written(tmp_path):
    write_profile(PROFILE, tmp_path / "memory.json")
    assert read_profile(tmp_path / "memory.json") == PROFILE


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"mix": None},
        {"mix": {"generations": "many", "searches": 1}},
        {"generation": [{"kv_bytes": 64}]},
        {"retrieval": [[1.0]]},
        {"generation": 7},
        {"lanes": ["both", "other"]},
    ],
)
def test_another_record_is_refused(tmp_path, change):
    file = tmp_path / "memory.json"
    write_profile(PROFILE, file)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ConfigError, match=r"memory_profile: .*memory.json is no memory profile"):
        read_profile(file)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 3])
def test_what_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "memory.json").write_text(text)
    with pytest.raises(ConfigError, match="heddle profile --memory"):
        read_profile(tmp_path / "memory.json")


def test_a_file_that_is_not_there_or_not_to_be_written_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none.json can't be read"):
        read_profile(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="can't be written"):
        write_profile(PROFILE, tmp_path / "no" / "memory.json")
