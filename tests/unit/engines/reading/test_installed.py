"""Installed extractors are found by their own entry point, and are no language models."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from heddle.core.errors import ConfigError
from heddle.engines.reading import installed
from heddle.engines.reading.installed import (
    ENTRY_POINTS,
    EXTRACT,
    extractor_directory,
    installed_extractors,
)

PROJECT = Path(__file__).parents[4] / "models" / "extractor" / "pyproject.toml"


@dataclass
class Entry:
    name: str
    load: Callable[[], Callable[[], Path]]


def offer(monkeypatch: pytest.MonkeyPatch, *entries: Entry) -> None:
    monkeypatch.setattr(installed, "entry_points", lambda group: [e for e in entries if group])


def test_an_installed_extractor_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer(monkeypatch, Entry("other", lambda: Path), Entry(EXTRACT, lambda: lambda: tmp_path))
    assert extractor_directory() == tmp_path
    assert installed_extractors() == ("extract", "other")


def test_without_one_the_error_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    with pytest.raises(ConfigError, match=r"installed: none\); pip install heddle-extractor"):
        extractor_directory()


def test_a_package_without_weights_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise FileNotFoundError("train them with `make extractor`")

    offer(monkeypatch, Entry(EXTRACT, lambda: missing))
    with pytest.raises(ConfigError, match="has no weights: train them"):
        extractor_directory()


def test_the_package_offers_itself_as_an_extractor_alone() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == {ENTRY_POINTS: {EXTRACT: "heddle_extractor:model_dir"}}
