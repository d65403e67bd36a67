"""Depths that a profile has written, and files that hold none."""

import json
from pathlib import Path

import pytest

from heddle.app.embedding_depths import (
    DepthTable,
    FoundDepths,
    MeasuredOn,
    WindveDepths,
    depths_record,
    read_depths,
    windve_depths,
)
from heddle.core.errors import ConfigError

TABLES = (
    DepthTable(0.1, {"fast": FoundDepths(5, 6, 4), "slow": FoundDepths(1, 1, 0)}),
    DepthTable(1.0, {"fast": FoundDepths(40, 40, 44), "slow": FoundDepths(8, 6, 8)}),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "depths.json"
    path.write_text(json.dumps(depths_record(TABLES, 75)), encoding="utf-8")
    return path


def test_what_was_written_is_read(file: Path) -> None:
    assert read_depths(file) == TABLES


def test_the_fine_tuned_depths_of_the_limit_are_taken(file: Path) -> None:
    assert windve_depths("predicted", None, None) is None
    assert windve_depths("windve", None, None) == WindveDepths(1.0)
    assert windve_depths("windve", None, file) == WindveDepths(1.0, {"fast": 44, "slow": 8})
    assert windve_depths("windve", 0.1, str(file)) == WindveDepths(0.1, {"fast": 4, "slow": 0})
    with pytest.raises(ConfigError, match=r"an SLO of 0.1, 1 s, and .* is 0.5.*--slo 500"):
        windve_depths("windve", 0.5, file)


def test_depths_of_another_embedder_are_refused_and_those_of_another_cpu_noted(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = MeasuredOn("minilm-1", "this CPU")
    found = WindveDepths(1.0, {"fast": 44, "slow": 8})
    assert windve_depths("windve", None, file, here) == found  # it says neither
    file.write_text(json.dumps(depths_record(TABLES, 75, here)), encoding="utf-8")
    assert windve_depths("windve", None, file, here) == found
    assert not caplog.records
    assert windve_depths("windve", None, file, here._replace(cpu="another")) == found
    assert "measured on this CPU, and this machine has another" in caplog.text
    with pytest.raises(ConfigError, match="with the embedder minilm-1, and this server has bge-2"):
        windve_depths("windve", None, file, here._replace(embedder="bge-2"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 0, "together": []}',
        '{"version": 1, "together": [{"slo_s": 1, "lanes": {"a": {"regression": 1}}}]}',
        json.dumps(depths_record([DepthTable(1.0, {"a": FoundDepths(1, 1, -1)})], 75)),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"holds no depths .*heddle profile --together"):
        read_depths(path)
    with pytest.raises(ConfigError, match="holds no depths"):
        windve_depths("windve", None, path, MeasuredOn("minilm-1", "this CPU"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        windve_depths("windve", 1.0, tmp_path / "none")
