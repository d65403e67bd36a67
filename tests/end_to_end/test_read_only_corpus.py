"""A corpus on a volume that can only be read: it is served, and says so where it is changed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heddle.corpus.sqlite.database import FILE_NAME
from heddle.corpus.store import CorpusStore

QUESTION = "Who is the keeper of Rock 3?"
# Root may write anywhere, unless it has given that power away.
AS_OTHERS = ("setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override")

pytestmark = pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which(AS_OTHERS[0]) is None, reason="root may write anywhere"
)


@pytest.fixture
def sealed(corpus: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a corpus whose files and folders can only be read."""
    copy = Path(shutil.copytree(corpus, tmp_path / "corpus"))
    paths = [copy, *copy.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield copy
    for path in paths:
        if path.exists():  # a writer takes the log of the last changes away
            path.chmod(0o700)


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    before = AS_OTHERS if os.geteuid() == 0 else ()
    command = [*before, sys.executable, "-m", "heddle.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def state(corpus: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}


@pytest.mark.usefixtures("inline")
def test_a_corpus_that_can_only_be_read_answers(sealed: Path) -> None:
    before = state(sealed)
    done = run("ask", sealed, QUESTION)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Rock 3" in done.stdout
    assert run("search", sealed, QUESTION).returncode == 0
    assert run("docs", sealed, "ls").returncode == 0
    assert state(sealed) == before


def test_what_changes_it_is_refused(sealed: Path, tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("A new one.")
    done = run("docs", sealed, "add", tmp_path / "new.md")
    assert done.returncode == 1
    assert f"error: {sealed / FILE_NAME}: the file or its directory is read-only" in done.stderr


def test_what_another_writes_is_found(sealed: Path) -> None:
    sealed.chmod(0o755)
    (sealed / FILE_NAME).chmod(0o644)
    with CorpusStore.open(sealed) as writer:  # as the one who owns it
        assert writer.documents.delete_document(writer.documents.listed()[0].id)
        left = len(writer.documents.listed())
        sealed.chmod(0o555)
        (sealed / FILE_NAME).chmod(0o444)
        done = run("docs", sealed, "ls")
    assert done.stderr == f"{left} documents\n"
