"""`heddle explain` draws every application, with its connector or without."""

from pathlib import Path

import pytest

from heddle.cli.main import main
from heddle.workflow.ready_made import APPLICATIONS


@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_application(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    assert main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert f"workflow {name!r}: " in said
    assert "where a request begins\nas lowered" in said


def test_what_cannot_be_run_is_refused_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main(["explain", "search_engine", "--analyze", str(tmp_path)]) == 2
    assert "--connector web_search=FILE.py:FUNCTION" in capsys.readouterr().err
