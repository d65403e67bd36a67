"""A row that differs from what was written is never handed out."""

import sqlite3

import numpy as np
import pytest

from heddle.core.errors import StorageError
from heddle.core.search_scope import SearchScope
from heddle.corpus.damage import DamagedChunk, DamageLog
from heddle.corpus.sqlite.database import FILE_NAME
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import STAMP, embed, put, texts_searchable


def change(store, statement, *values):
    with rows_of(store) as connection:
        assert connection.execute(statement, values).rowcount > 0


@pytest.fixture
def filled(store):
    put(store, "a", "the head is Orla Venn", "another text")
    put(store, "b", "a sound text")
    embed(store)
    return store


def test_letters_changed_in_the_file_are_not_shown(tmp_path):
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(STAMP)
        put(store, "a", "the head is Orla Venn")
        embed(store)
    # The last connection has written the log back, so every copy of the text is in this file.
    file = tmp_path / FILE_NAME
    before = file.read_bytes()
    assert b"Orla Venn" in before
    file.write_bytes(before.replace(b"Orla Venn", b"Olaf Vann"))
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT text FROM chunks").fetchone()[0].endswith("Olaf Vann")
    connection.close()
    with CorpusStore.open(tmp_path) as store:
        assert store.passages([1]) == ()
        assert store.health.damage.count == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET title = 'b title' WHERE chunk_id = 1",
        "UPDATE chunks SET position = 7 WHERE chunk_id = 1",
        "UPDATE chunks SET page = 3 WHERE chunk_id = 1",
        "UPDATE chunks SET heading = '[\"x\"]' WHERE chunk_id = 1",
        "UPDATE documents SET tenant = 'other' WHERE id = 'a'",
        "UPDATE documents SET id = 'c' WHERE id = 'a'",
    ],
)
def test_all_that_is_shown_is_covered(filled, statement):
    assert len(filled.passages([1])) == 1
    change(filled, statement)
    assert [passage.text for passage in filled.passages([1, 3])] == ["a sound text"]


def test_a_text_that_is_no_utf_8_any_more_is_left_out_too(filled):
    if filled.place.is_remote:
        return  # such a text can't be stored
    change(filled, "UPDATE chunks SET text = CAST(x'41ff42' AS TEXT) WHERE chunk_id = 1")
    assert [passage.chunk_id for passage in filled.passages([1, 2])] == [2]


def test_the_log_names_each_damaged_chunk_once(filled, caplog):
    change(filled, "UPDATE chunks SET title = 'b' WHERE chunk_id = 3")
    for _ in range(3):
        assert filled.passages([3]) == ()
    assert caplog.text.count("chunk 3 of the document 'b' is damaged") == 1
    assert f"heddle doctor --index {filled.place} --check" in caplog.text


def test_no_more_chunks_are_remembered_than_fit(tmp_path, caplog):
    log = DamageLog(tmp_path, chunks_max=2)
    log.note(DamagedChunk(i, "text", "a", "") for i in range(4))
    assert (log.count, caplog.text.count("more than 2 chunks")) == (2, 1)
    log.settle([0])
    log.note([DamagedChunk(7, "vector", "a", "")])
    assert [chunk.chunk_id for chunk in log.found()] == [1, 7]


def test_what_another_tenant_has_lost_is_not_counted(tmp_path):
    log = DamageLog(tmp_path)
    log.note([DamagedChunk(1, "text", "a", "mine"), DamagedChunk(2, "text", "b", "")])
    assert [log.count_among([1, 2, 3], tenant) for tenant in ("mine", "yours")] == [2, 1]


def test_what_is_sound_or_gone_is_known_as_damaged_no_more(filled):
    change(filled, "UPDATE chunks SET position = 7 WHERE chunk_id IN (1, 3)")
    assert filled.passages([1, 3]) == ()
    change(filled, "UPDATE chunks SET position = 0 WHERE chunk_id = 3")
    filled.documents.delete_document("a")
    assert filled.health.damage.count == 0
    assert [passage.chunk_id for passage in filled.passages([1, 3])] == [3]


def test_a_damaged_vector_is_not_handed_out(filled):
    other = np.ones(4, np.float32).tobytes()
    change(filled, "UPDATE vectors SET vector = ? WHERE chunk_id = 2", other)
    with pytest.raises(StorageError, match="vector of chunk 2 is damaged"):
        list(filled.vectors())
    assert filled.chunk_kv.vectors_of([1, 2]).chunk_ids.tolist() == [1]
    assert filled.by_words("text", 9, SearchScope()).chunk_ids.tolist() == [3]
    assert [chunk.part for chunk in filled.health.damage.found()] == ["vector"]


def test_a_copied_vector_has_its_checksum(filled):
    put(filled, "c", "a sound text", "of two parts")
    with rows_of(filled) as connection:
        missing = connection.execute("SELECT count(*) FROM vectors WHERE checksum IS NULL")
        assert missing.fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (4,)


def test_rows_of_an_older_heddle_pass_unchecked(filled):
    change(filled, "UPDATE chunks SET checksum = NULL, title = 'b title'")
    change(filled, "UPDATE vectors SET checksum = NULL")
    assert len(texts_searchable(filled)) == 3
