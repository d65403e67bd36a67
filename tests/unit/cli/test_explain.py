from pathlib import Path

import pytest

from heddle.cli.main import main
from heddle.workflow.presets import PRESETS


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", PRESETS)
def test_every_ready_made_workflow(name: str, capsys):
    assert main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert f"workflow {name!r} as lowered:" in said
    assert "after prune_dependencies" in said
    assert "on every scheduling cycle: split_substages" in said
    assert "no predicted times yet" in said


def test_mermaid(capsys):
    assert main(["explain", "oneshot", "--mermaid"]) == 0
    assert "flowchart LR" in capsys.readouterr().out


def test_a_loop_is_told(capsys):
    main(["explain", "multistep"])
    assert "a callable edge chooses among retrieve, answer or END" in capsys.readouterr().out


def test_times_that_were_measured_before(capsys, cache: Path):
    cache.mkdir()
    (cache / "profile.json").write_text('{"embedding": 0.5, "decoding": 2.0}')
    assert main(["explain", "oneshot"]) == 0
    assert "predicted critical path: 2.500 s" in capsys.readouterr().out


def test_a_workflow_of_ones_own(capsys, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("from heddle import RAGraph\nflow = RAGraph('mine').add_retrieval('find')\n")
    assert main(["explain", f"{file}:flow"]) == 0
    assert "workflow 'mine' as lowered:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nope", "workflow 'nope' is unknown; there are oneshot"),
        ("nope.py:flow", "there is no file 'nope.py'"),
        ("README.md:flow", "no Python file"),
    ],
)
def test_what_is_no_workflow(name: str, words: str, capsys, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("README.md").write_text("text")
    assert main(["explain", name]) == 2
    assert words in capsys.readouterr().err
