"""A disk that is full, read-only or damaged, and a process that is killed while it writes."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import ConfigError, DiskFull, InputError, StorageError
from heddle.corpus.sqlite import database, schema
from heddle.corpus.sqlite.database import FILE_NAME, Database
from heddle.corpus.sqlite.storage_errors import storage_errors
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import DIMS, STAMP, chunks, document, embed, put, texts_searchable


def limit_pages(held_by: Database, extra: int) -> None:
    """Make the disk full once the file has grown by this many pages."""
    with held_by.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + extra}")


def test_a_full_disk_loses_nothing_and_the_next_run_goes_on(store, sqlite_database):
    put(store, "a", "one")
    embed(store)
    limit_pages(sqlite_database, 4)
    big = document("b", "x")
    with pytest.raises(DiskFull, match=r"corpus\.sqlite: the disk is full.*resumes"):
        store.documents.put_document(big, chunks(*(f"{n}" + "y" * 1500 for n in range(200))))
    assert store.stats().documents == 1
    assert texts_searchable(store) == ["one"]
    limit_pages(sqlite_database, 10_000)
    store.documents.put_document(big, chunks(*(f"{n}" + "y" * 1500 for n in range(200))))
    embed(store)
    assert store.vector_count == 201


def test_a_full_disk_while_vectors_are_stored(store, sqlite_database):
    put(store, "a", *(f"text {number}" for number in range(2000)))
    limit_pages(sqlite_database, 1)
    with pytest.raises(StorageError, match="disk is full"):
        embed(store)
    assert store.stats().vectors == 0
    limit_pages(sqlite_database, 10_000)
    assert embed(store) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "no permission"),
        (errno.EIO, "failed to read or write"),
        (errno.ENAMETOOLONG, "the disk refused"),
    ],
)
def test_what_the_system_says(code, words):
    with pytest.raises(StorageError, match=f"here: .*{words}"), storage_errors(Path("here")):
        raise OSError(code, os.strerror(code))


def test_a_fault_of_our_own_is_not_the_disks():
    with pytest.raises(sqlite3.OperationalError), storage_errors(Path("here")):
        sqlite3.connect(":memory:").execute("SELECT nonsense")


def test_a_read_only_corpus(store, sqlite_database):
    with sqlite_database.read() as connection:
        connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="read-only; make both writable"):
        put(store, "a", "one")


def test_what_is_made_is_its_users_alone(tmp_path):
    folder = tmp_path / "made" / "corpus"
    with CorpusStore.open(folder, create=True) as store:
        put(store, "a", "one")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes.pop("corpus") == 0o700
    assert set(modes) >= {FILE_NAME, f"{FILE_NAME}-wal"}
    assert set(modes.values()) == {0o600}


@pytest.fixture
def read_only(store, monkeypatch):
    """Return the directory of a corpus with a live document that counts as read-only."""
    put(store, "a", "one")
    embed(store)
    monkeypatch.setattr(database, "is_writable", lambda directory: False)
    return store.place.work


def test_a_corpus_that_can_only_be_read_is_read(store, read_only):
    store.close()
    with CorpusStore.open(read_only) as opened:
        assert texts_searchable(opened) == ["one"]
        assert opened.passages([1])[0].text == "one"
        with pytest.raises(StorageError, match="read-only; make both writable"):
            put(opened, "b", "two")


def test_a_reader_that_can_not_write_follows_who_can(store, read_only):
    with CorpusStore.open(read_only) as opened:
        put(store, "b", "two")  # over a connection of its own, which can write
        embed(store)
        assert texts_searchable(opened) == ["one", "two"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="writable"):
        CorpusStore.open(tmp_path / "corpus", create=True)


def test_a_directory_that_can_not_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="corpus"):
        CorpusStore.open(tmp_path / "file" / "corpus", create=True)


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 1000)
    with pytest.raises(StorageError, match="not a corpus that Heddle wrote"):
        CorpusStore.open(tmp_path)


def test_somebody_elses_database(tmp_path):
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    for create in (False, True):
        with pytest.raises(StorageError, match="not a Heddle corpus"):
            CorpusStore.open(tmp_path, create=create)


def test_an_empty_file_is_no_corpus_yet(tmp_path):
    (tmp_path / FILE_NAME).touch()
    with pytest.raises(InputError, match="no corpus here"):
        CorpusStore.open(tmp_path)
    CorpusStore.open(tmp_path, create=True).close()
    CorpusStore.open(tmp_path).close()


def test_a_newer_corpus_is_refused(store, tmp_path):
    with rows_of(store) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(ConfigError, match="written by a newer Heddle"):
        CorpusStore.open(store.place.work, create=True)


def test_a_damaged_file(tmp_path):
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(STAMP)
        put(store, "a", *(f"text {number}" * 50 for number in range(500)))
        embed(store)
    file = tmp_path / FILE_NAME
    content = bytearray(file.read_bytes())
    content[schema.PAGE_BYTES * 2 :] = b"\xa5" * (len(content) - schema.PAGE_BYTES * 2)
    file.write_bytes(content)
    with pytest.raises(StorageError, match=r"the file is damaged; .*index again"):  # noqa: SIM117
        with CorpusStore.open(tmp_path) as store:
            texts_searchable(store)


def test_a_vector_of_another_length(store):
    put(store, "a", "one")
    embed(store)
    with rows_of(store) as connection:
        connection.execute("UPDATE vectors SET vector = x'0000'")
    with pytest.raises(StorageError, match="damaged"):
        list(store.vectors())


WRITER = f"""
import sys
from pathlib import Path
import numpy as np
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from tests.unit.corpus.corpora import STAMP, chunks, document, embed
from heddle.corpus.store import CorpusStore

store = CorpusStore.open(Path(sys.argv[1]), create=True)
store.set_embedder(STAMP)
number = store.stats().documents
while True:
    texts = [f"d{{number}} part {{part}}" for part in range(1 + number % 4)]
    store.documents.put_document(document(f"d{{number}}", " ".join(texts)), chunks(*texts))
    if number % 3 == 2:
        embed(store, limit=5)
    number += 1
    print(number, flush=True)
"""


@pytest.mark.parametrize(
    "acknowledged", [1, 20, *(pytest.param(n, marks=pytest.mark.nightly) for n in (7, 33))]
)
def test_a_killed_writer_leaves_whole_transactions_and_the_next_goes_on(tmp_path, acknowledged):
    """SIGKILL at some moment after `acknowledged` acknowledged documents, twice in a row."""
    total = 0
    for _ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        with writer, writer.stdout:
            for _ in range(acknowledged):
                total = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        check_whole(tmp_path, total)
    with CorpusStore.open(tmp_path) as store:
        embed(store)
        stats = store.stats()
        assert stats.pending == 0
        assert store.vector_count == stats.chunks == len(texts_searchable(store))
        for batch in store.vectors():
            assert batch.vectors.shape[1] == DIMS
            assert np.isfinite(batch.vectors).all()


def check_whole(directory: Path, acknowledged: int) -> None:
    with CorpusStore.open(directory) as store:
        with rows_of(store) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            counts = connection.execute(
                "SELECT id, count(*) FROM documents JOIN chunks USING (version) GROUP BY version"
            ).fetchall()
        assert len(counts) >= acknowledged
        assert all(count == 1 + int(name[1:]) % 4 for name, count in counts)
        searchable = texts_searchable(store)
        for name in {text.split()[0] for text in searchable}:
            parts = [text for text in searchable if text.split()[0] == name]
            assert len(parts) == 1 + int(name[1:]) % 4
        stats = store.stats()
        assert stats.vectors + stats.pending == stats.chunks


def test_many_processes_make_one_corpus(tmp_path):
    code = (
        "import sys; from pathlib import Path; from heddle.corpus.store import CorpusStore;"
        "CorpusStore.open(Path(sys.argv[1]), create=True).close()"
    )
    makers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "new")]) for _ in range(4)
    ]
    assert [maker.wait() for maker in makers] == [0, 0, 0, 0]
    with CorpusStore.open(tmp_path / "new") as store:
        assert store.revision == 0
