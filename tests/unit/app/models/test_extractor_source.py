"""Models that read are found by name or directory."""

from pathlib import Path

import pytest

from heddle.app.models.extractor_source import open_extractor
from heddle.core.errors import ConfigError, InputError
from heddle.engines.reading import installed
from heddle.engines.reading.reading_directory import ReaderKind
from tests.helpers.extractor_weights import EXTRACTOR, needs_weights
from tests.helpers.small_readers import make_reader


@needs_weights
def test_a_directory_is_opened() -> None:
    assert open_extractor(EXTRACTOR).kind is ReaderKind.EXTRACTOR


def test_a_cross_encoder_is_opened_as_what_it_is(tmp_path: Path) -> None:
    assert open_extractor(make_reader(tmp_path / "m", "bert", "score")).kind is ReaderKind.SCORE


def test_extract_is_the_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "entry_points", lambda group: [])
    with pytest.raises(ConfigError, match="pip install heddle-extractor"):
        open_extractor("extract")


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no directory and no installed model"):
        open_extractor("nothing-of-this-name")
