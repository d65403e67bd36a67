"""`heddle docs`: the documents of a corpus, kept at what their files say."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.inline_engines import inline_engines
from heddle.cli import docs
from heddle.cli.main import main
from heddle.corpus.store import CorpusStore


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "mill.txt").write_text("The mill grinds flour.")
    (folder / "tide.txt").write_text("The tide turns.")
    return folder


@pytest.fixture
def corpus(tmp_path: Path, files: Path) -> Iterator[Path]:
    directory = tmp_path / "corpus"
    with inline_engines():
        assert main(["docs", str(directory), "add", str(files)]) == 0
        yield directory


def listed(corpus: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert main(["docs", str(corpus), "ls", "--json"]) == 0
    return [Path(one["id"]).name for one in json.loads(capsys.readouterr().out)]


@pytest.mark.slow
def test_added_listed_removed_and_synchronised(corpus: Path, files: Path, capsys):
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]
    (files / "tide.txt").unlink()
    (files / "wind.txt").write_text("The wind is in the west.")
    assert main(["docs", str(corpus), "sync"]) == 0
    assert listed(corpus, capsys) == ["mill.txt", "wind.txt"]
    with CorpusStore.open(corpus) as store:
        [mill, _] = store.documents.listed()
        assert store.runs.roots == (str(files),)
    assert main(["docs", str(corpus), "rm", mill.id, "nothing"]) == 1
    out, err = capsys.readouterr()
    assert "documents deleted: 1" in out
    assert "no document 'nothing'" in err
    assert f"heddle docs {corpus} ls" in err
    assert listed(corpus, capsys) == ["wind.txt"]


@pytest.mark.slow
def test_a_directory_that_is_gone_keeps_its_documents(corpus: Path, files: Path, capsys):
    files.rename(files.with_name("elsewhere"))
    assert main(["docs", str(corpus), "sync"]) == 1
    assert f"the directory {files} is gone, and its documents are kept" in capsys.readouterr().err
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]


@pytest.mark.slow
def test_watching_indexes_only_what_is_new(corpus: Path, files: Path, capsys, monkeypatch):
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            (files / "wind.txt").write_text("The wind is in the west.")
        if len(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(docs, "_pause", pause)
    runs: list[object] = []
    sync = docs._sync
    monkeypatch.setattr(docs, "_sync", lambda options: runs.append(1) or sync(options))
    assert main(["docs", str(corpus), "sync", "--watch", "--interval", "2"]) == 130
    assert looks == [2.0] * 4
    assert len(runs) == 1, "at the third look"
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt", "wind.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ls", "x"], "ls takes no names: leave 'x' out"),
        (["sync", "x"], "sync takes no names"),
        (["add"], "add needs files or directories"),
        (["rm"], "rm needs ids of documents"),
        (["ls", "--watch"], "--watch is for sync"),
        (["sync", "--watch", "--interval", "0"], "--interval must be at least 1 seconds"),
        (["sync", "--interval", "nan"], "--interval must be at least 1 seconds"),
        (["ls"], "no corpus here; make one with"),
    ],
)
def test_refusals(arguments: list[str], words: str, tmp_path: Path, capsys):
    assert main(["docs", str(tmp_path / "none"), *arguments]) == 2
    assert words in capsys.readouterr().err
