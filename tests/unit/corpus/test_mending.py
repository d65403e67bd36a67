"""What brings a document again replaces its damaged chunks, although its text is the same."""

from contextlib import closing, contextmanager

import pytest

from heddle.core.search_scope import SearchScope
from heddle.corpus.backends import backend_of
from heddle.corpus.checks.corpus_check import check_corpus
from heddle.corpus.chunking import Chunking
from heddle.corpus.indexing_runs import IndexingRuns
from heddle.corpus.ingestion import ingest_documents
from heddle.corpus.records import PutOutcome
from heddle.corpus.rows import chunk_check
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import chunks, document, embed, put, texts_searchable


def change(store, statement, *values):
    with rows_of(store) as connection:
        assert connection.execute(statement, values).rowcount > 0


def put_again(store, document_id, *texts):
    return store.documents.put_document(document(document_id, " ".join(texts)), chunks(*texts))


def by_words(store, text):
    found = store.by_words(text, 9, SearchScope()).chunk_ids.tolist()
    return [passage.text for passage in store.passages(found)]


def words_are_sound(store):
    if store.place.is_remote:
        return True  # its words are counted by chunk, and go with it
    with rows_of(store) as connection:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    return True


@pytest.fixture
def filled(store):
    put(store, "a", "the head is Orla Venn", "another text")
    put(store, "b", "a sound text")
    embed(store)
    return store


def test_a_damaged_text_is_replaced_at_once_with_its_vector(filled, caplog):
    change(filled, "UPDATE chunks SET text = 'Olaf Vann' WHERE chunk_id = 1")
    assert filled.passages([1]) == ()
    assert put_again(filled, "a", "the head is Orla Venn", "another text") is PutOutcome.CHANGED
    assert filled.documents.pending_chunks(9) == ()
    assert filled.health.damage.count == 0
    assert sorted(texts_searchable(filled)) == [
        "a sound text",
        "another text",
        "the head is Orla Venn",
    ]
    assert by_words(filled, "Orla") == ["the head is Orla Venn"]
    assert by_words(filled, "Olaf") == []
    assert words_are_sound(filled)
    assert "the document 'a' is damaged: the document is stored anew" in caplog.text
    assert put_again(filled, "a", "the head is Orla Venn", "another text") is PutOutcome.UNCHANGED


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vectors SET vector = zeroblob(16) WHERE chunk_id = 1",
        "DELETE FROM vectors WHERE chunk_id = 1",
    ],
)
def test_a_damaged_vector_is_computed_again(filled, damage):
    change(filled, damage)
    assert put_again(filled, "a", "the head is Orla Venn", "another text") is PutOutcome.CHANGED
    # What is sound is found meanwhile, and an index can be built.
    assert sorted(texts_searchable(filled)) == ["a sound text", "another text"]
    assert [chunk.text for chunk in filled.documents.pending_chunks(9)] == ["the head is Orla Venn"]
    embed(filled)
    assert len(texts_searchable(filled)) == 3
    assert filled.runs.damaged_sources() == set()


class CountedRows:
    """A database whose statements give their rows at once, as PostgreSQL's client takes them."""

    def __init__(self, database):
        self._database = database
        self.rows_max = 0

    def structure_problems(self):
        return ()

    @contextmanager
    def read(self):
        with self._database.read() as connection:
            self._connection = connection
            yield self

    def execute(self, statement, values=()):
        rows = self._connection.execute(statement, values).fetchall()
        self.rows_max = max(self.rows_max, len(rows))
        return GivenRows(rows)


class GivenRows(list):
    def fetchone(self):
        return self[0]


def test_all_chunks_are_checked_a_few_at_a_time(store, monkeypatch):
    for number in range(7):
        put(store, f"d{number}", f"text {number}")
    embed(store)
    store.documents.delete_document("d3")
    change(store, "UPDATE chunks SET text = 'other' WHERE chunk_id IN (1, 6, 7)")
    monkeypatch.setattr(chunk_check, "BATCH_ROWS", 2)
    with closing(backend_of(store.place).open_database(store.place, create=False)) as database:
        counted = CountedRows(database)
        assert IndexingRuns(counted).damaged_sources() == {""}
        assert [one.chunk_id for one in check_corpus(counted).damaged] == [1, 6, 7]
    assert counted.rows_max == 2


def test_an_equal_chunk_elsewhere_keeps_its_place(store):
    put(store, "a", "same", "more")
    put(store, "b", "same")
    embed(store)
    change(store, "UPDATE vectors SET vector = zeroblob(16) WHERE chunk_id = 1")
    put_again(store, "a", "same", "more")
    embed(store)
    assert sorted(texts_searchable(store)) == ["more", "same"]
    store.documents.delete_document("a")
    assert texts_searchable(store) == ["same"]
    assert store.runs.damaged_sources() == set()


def test_nothing_becomes_a_twin_of_a_damaged_chunk(filled):
    change(filled, "UPDATE chunks SET text = 'other' WHERE chunk_id = 3")
    put(filled, "c", "a sound text")
    assert sorted(texts_searchable(filled))[0] == "a sound text"


def test_a_damaged_document_that_waits_is_stored_anew(store):
    put(store, "a", "some text")
    change(store, "UPDATE chunks SET text = 'other' WHERE chunk_id = 1")
    put_again(store, "a", "some text")
    embed(store)
    assert texts_searchable(store) == ["some text"]


def test_a_damaged_document_can_be_deleted(filled):
    change(filled, "UPDATE chunks SET text = 'a much longer text of many other words'")
    assert filled.documents.delete_document("a")
    assert words_are_sound(filled)
    assert by_words(filled, "Orla") == []


def test_the_files_of_damaged_chunks_are_read_anew(store, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\nThe text of {name}.")
    chunking = Chunking()
    ingest_documents(store, [tmp_path], chunking=chunking)
    embed(store)
    assert ingest_documents(store, [tmp_path], chunking=chunking).files == 0
    change(store, "UPDATE chunks SET text = 'other' WHERE title LIKE '%one%'")
    assert len(texts_searchable(store)) == 1
    report = ingest_documents(store, [tmp_path], chunking=chunking)
    assert (report.files, report.changed) == (1, 1)
    assert len(texts_searchable(store)) == 2
