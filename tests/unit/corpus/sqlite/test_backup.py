"""A backup is checked, is as of one moment, and comes back as it was."""

import resource
import shutil
import sqlite3
import stat

import pytest

from heddle.core.errors import InputError, StorageError
from heddle.corpus.checks.corpus_check import check_corpus
from heddle.corpus.sqlite import backup, schema
from heddle.corpus.sqlite.backup import back_up, restore
from heddle.corpus.sqlite.database import FILE_NAME
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.helpers.folder_locks import is_locked
from tests.unit.corpus.corpora import embed, put, texts_searchable


@pytest.fixture
def filled(store):
    put(store, "a", "the first", "the second")
    embed(store)
    return store


def change(store, statement):
    with rows_of(store) as connection:
        assert connection.execute(statement).rowcount > 0


@pytest.mark.parametrize("name", ["copy.sqlite", "copy"])
def test_a_backup_comes_back_as_it_was(filled, tmp_path, name):
    assert back_up(filled.place.work, tmp_path / name).chunks == 2
    put(filled, "b", "what comes later")
    embed(filled)
    assert restore(tmp_path / name, tmp_path / "again").is_sound
    with CorpusStore.open(tmp_path / "again") as restored:
        assert texts_searchable(restored) == ["the first", "the second"]
        assert restored.embedder == filled.embedder
    assert sorted(file.name for file in (tmp_path / "again").iterdir()) == [FILE_NAME]


def test_a_backup_comes_back_under_another_name(filled, tmp_path):
    back_up(filled.place.work, tmp_path / "copy.sqlite")
    (tmp_path / "copy.sqlite").rename(tmp_path / "monday.bak")
    assert restore(tmp_path / "monday.bak", tmp_path / "again").chunks == 2


def test_a_file_that_is_no_backup_is_refused_by_its_name(tmp_path):
    (tmp_path / "notes.md").write_text("# No database\n" * 100)
    with pytest.raises(StorageError, match=r"notes\.md: .*file is not a database"):
        restore(tmp_path / "notes.md", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_only_its_owner_can_read_it(filled, tmp_path):
    back_up(filled.place.work, tmp_path / "copy.sqlite")
    assert stat.S_IMODE((tmp_path / "copy.sqlite").stat().st_mode) == 0o600


def test_nothing_is_overwritten_unasked(filled, tmp_path):
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    back_up(filled.place.work, copy)
    with pytest.raises(InputError, match="is there already"):
        back_up(filled.place.work, copy)
    restore(copy, other)
    with CorpusStore.open(other) as store:
        put(store, "b", "newer")
        embed(store)
    with pytest.raises(InputError, match="--replace"):
        restore(copy, other)
    (other / "index").mkdir()
    restore(copy, other, replaces=True, derived=[other / "index", other / "kv"])
    assert not (other / "index").exists()
    with CorpusStore.open(other) as store:
        assert texts_searchable(store) == ["the first", "the second"]


def test_a_disk_that_is_full_is_named(filled, tmp_path):
    put(filled, "b", *(f"text {number} of many " * 9 for number in range(400)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
    try:
        with pytest.raises(StorageError, match=r"copy\.sqlite\.part: the disk"):
            back_up(filled.place.work, tmp_path / "copy.sqlite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.glob("copy.*"))


def test_a_log_that_lost_its_file_changes_nothing_of_a_backup(filled, tmp_path):
    copy, crashed = tmp_path / "copy.sqlite", tmp_path / "crashed"
    back_up(filled.place.work, copy)
    put(filled, "b", "what came later")
    embed(filled)
    shutil.copytree(filled.place.work, crashed)  # as a crash leaves it
    (crashed / FILE_NAME).unlink()
    assert (crashed / f"{FILE_NAME}-wal").stat().st_size
    restore(copy, crashed)
    with CorpusStore.open(crashed) as restored:
        assert texts_searchable(restored) == ["the first", "the second"]


def test_a_corpus_in_use_is_not_replaced(filled, tmp_path):
    back_up(filled.place.work, tmp_path / "copy.sqlite")
    with pytest.raises(InputError, match="another process uses it"):
        restore(tmp_path / "copy.sqlite", filled.place.work, replaces=True)
    assert len(texts_searchable(filled)) == 2


def test_a_corpus_that_is_opened_during_the_copy_stays_as_it_is(filled, tmp_path, monkeypatch):
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    back_up(filled.place.work, copy)
    restore(copy, other)
    (other / "index").mkdir()
    opened = []

    def opened_meanwhile(database):
        opened.append(CorpusStore.open(other))
        return check_corpus(database)

    monkeypatch.setattr(backup, "check_corpus", opened_meanwhile)
    with pytest.raises(InputError, match="another process uses it"):
        restore(copy, other, replaces=True, derived=[other / "index"])
    put(opened[0], "b", "what comes later")
    embed(opened[0])
    opened[0].close()
    assert (other / "index").exists()
    assert not list(other.glob("*.part*"))
    with CorpusStore.open(other) as store:
        assert texts_searchable(store) == ["the first", "the second", "what comes later"]


def test_opening_and_replacing_a_corpus_wait_for_each_other(filled, tmp_path, monkeypatch):
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    back_up(filled.place.work, copy)
    restore(copy, other)
    locked = []

    def derived():
        locked.append(is_locked(other))
        yield from ()

    def look(connection, path):
        locked.append(is_locked(other))

    restore(copy, other, replaces=True, derived=derived())
    monkeypatch.setattr(schema, "check_version", look)
    CorpusStore.open(other).close()
    assert locked == [True, True]
    assert not is_locked(other)


def test_a_damaged_corpus_is_not_copied(filled, tmp_path):
    change(filled, "UPDATE chunks SET text = 'other' WHERE chunk_id = 1")
    with pytest.raises(StorageError, match=r"not copied.*chunk 1 of the document 'a'"):
        back_up(filled.place.work, tmp_path / "copies" / "copy.sqlite")
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_damaged_backup_leaves_what_is_there(filled, tmp_path):
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    back_up(filled.place.work, copy)
    restore(copy, other)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE chunks SET text = 'other' WHERE chunk_id = 1")
    connection.close()
    with pytest.raises(StorageError, match="not copied"):
        restore(copy, other, replaces=True)
    with CorpusStore.open(other) as store:
        assert len(texts_searchable(store)) == 2


def test_a_damaged_corpus_is_replaced(filled, tmp_path):
    copy, other = tmp_path / "copy.sqlite", tmp_path / "other"
    back_up(filled.place.work, copy)
    other.mkdir()
    (other / FILE_NAME).write_bytes(b"no database at all" * 1000)
    restore(copy, other, replaces=True)
    with CorpusStore.open(other) as store:
        assert len(texts_searchable(store)) == 2


def test_no_backup(tmp_path):
    with pytest.raises(InputError, match="no backup here"):
        restore(tmp_path / "none.sqlite", tmp_path / "other")
    with pytest.raises(InputError, match="no corpus here"):
        back_up(tmp_path / "none", tmp_path / "copy.sqlite")
