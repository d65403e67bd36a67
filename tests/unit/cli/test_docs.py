"""`heddle docs`: the documents of a corpus, kept at what their files say."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
def test_a_document_is_removed_by_the_path_of_its_file(
    corpus: Path, files: Path, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(files.parent)
    assert main(["docs", str(corpus), "rm", f"{files.name}/mill.txt"]) == 0
    assert "documents deleted: 1" in capsys.readouterr().out
    assert listed(corpus, capsys) == ["tide.txt"]


@pytest.mark.slow
def test_a_removed_document_comes_back_with_its_file_alone(corpus: Path, files: Path, capsys):
    mill = str(files / "mill.txt")
    assert main(["docs", str(corpus), "add", mill]) == 0
    assert main(["docs", str(corpus), "rm", mill]) == 0
    for again in (["sync"], ["add", str(files)]):
        assert main(["docs", str(corpus), *again]) == 0
        said = f"of these, without documents (deleted, or no text): 1 (such as {mill})"
        assert said in capsys.readouterr().out
    assert listed(corpus, capsys) == ["tide.txt"]
    assert main(["docs", str(corpus), "add", mill]) == 0
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]


@pytest.mark.slow
def test_a_directory_that_is_gone_keeps_its_documents(corpus: Path, files: Path, capsys):
    files.rename(files.with_name("elsewhere"))
    assert main(["docs", str(corpus), "sync"]) == 1
    assert f"the directory {files} is gone, and its documents are kept" in capsys.readouterr().err
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]


@pytest.mark.slow
def test_a_directory_that_is_empty_keeps_its_documents(corpus: Path, files: Path, looks, capsys):
    elsewhere = files.with_name("elsewhere")
    files.rename(elsewhere)
    files.mkdir()  # as a mount point is without its disk
    assert main(["docs", str(corpus), "sync"]) == 1
    assert f"the directory {files} is empty, and its documents are kept" in capsys.readouterr().err
    looks.at = {2: stop}
    assert main(["docs", str(corpus), "sync", "--watch"]) == 130
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]
    (elsewhere / "mill.txt").rename(files / "mill.txt")
    assert main(["docs", str(corpus), "sync"]) == 0
    assert listed(corpus, capsys) == ["mill.txt"]


@pytest.mark.slow
def test_a_file_that_is_gone_is_no_error_for_ever(corpus: Path, tmp_path: Path, capsys):
    wind = tmp_path / "wind.txt"
    wind.write_text("The wind is in the west.")
    assert main(["docs", str(corpus), "add", str(wind)]) == 0
    wind.unlink()
    for _ in range(2):
        assert main(["docs", str(corpus), "sync"]) == 0
        assert "is gone" not in capsys.readouterr().err
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt"]


@dataclass
class Looks:
    """What `--watch` did: before each pause, how often it has synchronised; stopped by Ctrl-C."""

    at: dict[int, Callable[[], object]] = field(default_factory=dict)
    runs: int = 0
    runs_by_look: list[int] = field(default_factory=list)
    pauses_s: list[float] = field(default_factory=list)

    def pause(self, seconds: float) -> None:
        """Do what is to be done between two looks."""
        self.pauses_s.append(seconds)
        self.runs_by_look.append(self.runs)
        self.at.get(len(self.pauses_s), lambda: None)()


def stop() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks, sync = Looks(), docs._sync

    def counted(options: argparse.Namespace) -> int:
        looks.runs += 1
        return sync(options)

    monkeypatch.setattr(docs, "_pause", looks.pause)
    monkeypatch.setattr(docs, "_sync", counted)
    return looks


@pytest.mark.slow
def test_watching_indexes_only_what_is_new(corpus: Path, files: Path, looks: Looks, capsys):
    wind = files / "wind.txt"
    looks.at = {2: lambda: wind.write_text("The wind is in the west."), 4: stop}
    assert main(["docs", str(corpus), "sync", "--watch", "--interval", "2"]) == 130
    assert looks.pauses_s == [2.0] * 4
    assert looks.runs_by_look == [0, 0, 1, 1]
    assert listed(corpus, capsys) == ["mill.txt", "tide.txt", "wind.txt"]


@pytest.mark.slow
def test_watching_tries_a_bad_file_again_only_when_it_changes(
    corpus: Path, files: Path, looks: Looks, capsys
):
    bad = files / "bad.jsonl"
    bad.write_text("{\n")
    good = '{"id": "wind", "text": "The wind is in the west."}\n'
    looks.at = {3: lambda: bad.write_text(good), 5: stop}
    assert main(["docs", str(corpus), "sync", "--watch"]) == 130
    assert looks.runs_by_look == [1, 1, 1, 2, 2]
    assert capsys.readouterr().err.count(f"error: {bad}") == 1
    assert sorted(listed(corpus, capsys)) == ["mill.txt", "tide.txt", "wind"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ls", "x"], "ls takes no names: leave 'x' out"),
        (["sync", "x"], "sync takes no names"),
        (["add"], "add needs files or directories"),
        (["rm"], "rm needs ids of documents"),
        (["ls", "--watch"], "--watch is for sync"),
        (["add", "x", "--tenant", "acme"], "--tenant is for ls and rm"),
        (["sync", "--tenant", "acme"], "--tenant is for ls and rm"),
        (["sync", "--watch", "--interval", "0"], "--interval must be at least 1 seconds"),
        (["sync", "--interval", "nan"], "--interval must be at least 1 seconds"),
        (["ls"], "no corpus here; make one with"),
    ],
)
def test_refusals(arguments: list[str], words: str, tmp_path: Path, capsys):
    assert main(["docs", str(tmp_path / "none"), *arguments]) == 2
    assert words in capsys.readouterr().err
