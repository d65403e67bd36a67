import pytest

from heddle.cli import system_note
from heddle.cli.main import main
from heddle.cli.system_note import note_untested_system


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def _elsewhere(monkeypatch):
    monkeypatch.setattr(system_note, "untested", lambda facts: ("an abacus: never tried",))


def test_a_tested_system_sees_nothing(capsys, monkeypatch, cache):
    monkeypatch.setattr(system_note, "untested", lambda facts: ())
    note_untested_system()
    assert capsys.readouterr() == ("", "")
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("_elsewhere")
def test_another_one_is_told_once_on_stderr(capsys):
    note_untested_system()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("note: Heddle is tested on Linux")
    assert err.endswith("  an abacus: never tried\n")
    note_untested_system()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_elsewhere")
def test_a_cache_that_cannot_be_written_stops_nothing(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "file"))
    note_untested_system()
    assert "an abacus" in capsys.readouterr().err


@pytest.mark.usefixtures("_elsewhere")
def test_every_command_begins_with_it_and_goes_on(capsys):
    assert main(["eval", "list"]) == 0
    out, err = capsys.readouterr()
    assert "an abacus" in err
    assert "wiki_single_test" in out
