import json
from pathlib import Path

import pytest

from heddle.core.cache import cache_directory, cache_root, read_json, write_json


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("HEDDLE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "heddle"
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "mine"))
    assert cache_directory("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


def test_a_torn_file_is_none(tmp_path: Path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"é": 1})
    assert read_json(path) == {"é": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
    path.write_text(json.dumps({"a": 1})[:-1])
    assert read_json(path) is None
