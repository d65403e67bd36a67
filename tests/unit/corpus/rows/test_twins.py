"""Equal chunks: embedded once, found once, and none is lost when one of them goes."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from heddle.core.search_scope import SearchScope, metadata_of, where_of
from heddle.corpus.chunking import TextChunk
from heddle.corpus.records import PutOutcome
from heddle.corpus.rows import document_table
from heddle.corpus.rows.twins import chunk_digest
from heddle.corpus.store import CorpusStore
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import (
    DIMS,
    STAMP,
    chunks,
    document,
    embed,
    texts_searchable,
    vectors_of,
)


def put(store: CorpusStore, name: str, *texts: str, tenant: str = "", **more: object) -> PutOutcome:
    metadata = metadata_of(more)
    made = replace(document(name, " ".join(texts)), tenant=tenant, metadata=metadata)
    return store.documents.put_document(made, chunks(*texts))


def found(store: CorpusStore) -> list[tuple[str, str, int]]:
    """What a search sees: document, text, and in how many other places the text stands."""
    ids = sorted(int(one) for batch in store.vectors() for one in batch.chunk_ids)
    return [(p.document_id, p.text, p.copies) for p in store.passages(ids)]


def test_equal_chunks_are_embedded_and_found_once(store):
    put(store, "a", "same", "only a", "same")
    put(store, "b", "same", "only b")
    assert [chunk.text for chunk in store.documents.pending_chunks(9)] == [
        "same",
        "only a",
        "only b",
    ]
    assert store.stats().pending == 3
    embed(store)
    assert found(store) == [("a", "same", 2), ("a", "only a", 0), ("b", "only b", 0)]
    stats = store.stats()
    assert (stats.chunks, stats.vectors, stats.twins) == (5, 3, 2)
    assert [int(one) for one in store.by_words("same", 9, SearchScope()).chunk_ids] == [1]


def test_a_text_that_was_embedded_before_needs_no_embedding(store):
    put(store, "a", "one", "two")
    embed(store)
    revision = store.revision
    put(store, "b", "two", "one")
    assert store.documents.pending_chunks(9) == ()
    assert store.revision == revision + 1
    assert found(store) == [("a", "one", 1), ("a", "two", 1)]
    put(store, "a", "one", "new")
    assert [chunk.text for chunk in store.documents.pending_chunks(9)] == ["new"]
    embed(store)
    assert sorted(found(store)) == [("a", "new", 0), ("b", "one", 1), ("b", "two", 0)]


@pytest.mark.parametrize("gone", ["a", "b", "c"])
def test_deleting_one_keeps_the_others(store, gone):
    for name in "abc":
        put(store, name, "same", f"only {name}")
    embed(store)
    before = {
        int(i): v for b in store.vectors() for i, v in zip(b.chunk_ids, b.vectors, strict=True)
    }
    revision = store.revision
    store.documents.delete_document(gone)
    heir = min({"a", "b", "c"} - {gone})
    assert (heir, "same", 1) in found(store)
    assert texts_searchable(store).count("same") == 1
    new = [batch for batch in store.vectors(revision)]
    if gone == "a":
        assert [batch.vectors.tolist() for batch in new] == [[before[1].tolist()]]
    else:
        assert new == []


def test_tenants_and_collections_share_nothing(store):
    put(store, "a", "same", tenant="x")
    put(store, "b", "same", tenant="y")
    assert len(store.documents.pending_chunks(9)) == 2
    embed(store)
    assert [copies for _, _, copies in found(store)] == [0, 0]
    assert chunk_digest("a", "b", "c", "d") != chunk_digest("ab", "", "c", "d")


def test_a_filter_finds_the_document_that_it_asks_for(store):
    put(store, "a", "same", lang="en")
    put(store, "b", "same", lang="de")
    assert len(store.documents.pending_chunks(9)) == 1
    embed(store)
    assert found(store) == [("a", "same", 0), ("b", "same", 0)]
    put(store, "c", "same", lang="en")
    assert found(store)[0] == ("a", "same", 1)
    assert put(store, "a", "same", lang="fr") is PutOutcome.DESCRIBED
    assert found(store) == [("a", "same", 0), ("b", "same", 0), ("c", "same", 0)]
    allowed = store.allowed(SearchScope(where=where_of({"lang": "en"})))
    assert [p.document_id for p in store.passages(allowed.tolist())] == ["c"]


def test_after_a_change_of_metadata_equal_chunks_of_a_document_are_found_once(store):
    put(store, "a", "same", lang="en")
    put(store, "b", "same", "only b", "same", lang="en")
    embed(store)
    put(store, "b", "same", "only b", "same", lang="de")
    assert sorted(found(store)) == [("a", "same", 0), ("b", "only b", 0), ("b", "same", 1)]
    store.documents.delete_document("b")
    assert found(store) == [("a", "same", 0)]


def test_the_metadata_of_a_twin_changes(store):
    put(store, "a", "same", lang="en")
    put(store, "b", "same", lang="en")
    embed(store)
    revision = store.revision
    put(store, "b", "same", lang="de")
    assert found(store) == [("a", "same", 0), ("b", "same", 0)]
    assert [batch.chunk_ids.tolist() for batch in store.vectors(revision)] == [[2]]


class CountedConnection:
    """A connection that counts the statements it runs and the rows that they give."""

    def __init__(self, connection):
        self._connection = connection
        self.count = 0

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, values=()):
        rows = self._connection.execute(statement, values)
        self.count += 1
        if not statement.startswith("SELECT"):
            return rows
        found = rows.fetchall()
        self.count += len(found)
        return GivenRows(found)


class GivenRows(list):
    def fetchone(self):
        return self[0] if self else None

    def fetchall(self):
        return self


@pytest.mark.parametrize("own", [{"page": "same"}, {}, {"lang": "en"}])
def test_a_text_that_many_have_costs_no_more_for_each_of_them(store, own):
    for number in range(40):
        put(store, f"d{number}", "same", **(own or {"page": f"p{number}", "lang": "en"}))
    embed(store)
    one = replace(document("new", "same"), metadata=metadata_of(own or {"page": "new"}))
    with rows_of(store) as connection:
        counted = CountedConnection(connection)
        version = document_table.put(
            counted, one, chunks("same"), scan=0, chunking="", revision=store.revision + 1
        )[1]
        document_table.publish_complete(counted, [version], store.revision + 1)
    assert counted.count < 40
    assert found(store)[0] == ("d0", "same", 40 if own else 0)


def test_a_lost_file_of_equal_texts_is_deleted_from_its_end(store):
    for number in range(4):
        store.documents.put_document(document(f"d{number}", "same", "/lost.jsonl"), chunks("same"))
    put(store, "kept", "same")
    embed(store)
    with rows_of(store) as connection:
        keys = document_table.keys_of_source(connection, "/lost.jsonl", 1)
    assert [key[1] for key in keys] == ["d3", "d2", "d1", "d0"]
    assert store.runs.delete_sources(["/lost.jsonl"]) == 4
    assert found(store) == [("kept", "same", 0)]


TEXTS = st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=1, max_size=4)
NAMES = st.sampled_from("abcd")


class Twins(RuleBasedStateMachine):
    """Documents come, change, go and get their vectors in any order."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile
        from pathlib import Path

        self.folder = tempfile.TemporaryDirectory()
        self.store = CorpusStore.open(Path(self.folder.name), create=True)
        self.store.set_embedder(STAMP)
        self.wanted: dict[str, tuple[list[str], str]] = {}
        self.index: dict[int, list[float]] = {}
        self.revision = 0

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(name=NAMES, texts=TEXTS, lang=st.sampled_from(["en", "de"]))
    def put(self, name: str, texts: list[str], lang: str) -> None:
        put(self.store, name, *texts, lang=lang)
        self.wanted[name] = (texts, lang)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.store.documents.delete_document(name)
        self.wanted.pop(name, None)

    @rule(limit=st.integers(1, 3))
    def embed_some(self, limit: int) -> None:
        ids = [chunk.chunk_id for chunk in self.store.documents.pending_chunks(limit)]
        self.store.store_vectors(ids, vectors_of(ids))

    @invariant()
    def an_index_that_follows_has_what_is_there(self) -> None:
        revision = self.store.revision
        for one in self.store.deleted(self.revision):
            self.index.pop(int(one), None)
        for batch in self.store.vectors(self.revision):
            self.index |= zip(batch.chunk_ids.tolist(), batch.vectors.tolist(), strict=True)
        self.revision = revision
        now = {
            chunk_id: vector
            for batch in self.store.vectors()
            for chunk_id, vector in zip(
                batch.chunk_ids.tolist(), batch.vectors.tolist(), strict=True
            )
        }
        assert self.index == now

    @precondition(lambda self: not self.store.documents.pending_chunks(1))
    @invariant()
    def every_text_is_found_under_its_filter(self) -> None:
        for lang in ("en", "de"):
            wanted = {text for texts, its in self.wanted.values() if its == lang for text in texts}
            if not wanted:
                continue
            allowed = self.store.allowed(SearchScope(where=where_of({"lang": lang})))
            passages = self.store.passages([i for i in self.index if i in set(allowed.tolist())])
            assert {p.text for p in passages} == wanted
            places = sum(len(texts) for texts, its in self.wanted.values() if its == lang)
            assert sum(1 + p.copies for p in passages) == places


Twins.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
test_any_order = Twins.TestCase


def test_a_chunk_keeps_its_place(store):
    places = (TextChunk(0, "a title", "same", 3, 7, 2, ("One",)),)
    store.documents.put_document(document("a", "xx same"), places)
    put(store, "b", "same")
    embed(store)
    (passage,) = store.passages([1])
    assert (passage.place.start, passage.place.page, passage.copies) == (3, 2, 1)
    assert len(next(iter(store.vectors())).vectors[0]) == DIMS
