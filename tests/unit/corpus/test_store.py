"""CorpusStore: what a search sees, revisions, versions, resuming."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.errors import ConfigError, InputError, InternalError
from heddle.core.kv_reuse import PrimedWith
from heddle.core.ports import PassageSource
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.records import EmbedderStamp, PutOutcome
from heddle.corpus.store import CorpusStore
from tests.unit.corpus.corpora import (
    DIMS,
    STAMP,
    chunks,
    document,
    embed,
    put,
    texts_searchable,
    vectors_of,
)


def ids_pending(store: CorpusStore) -> list[int]:
    return [chunk.chunk_id for chunk in store.documents.pending_chunks(100)]


def test_a_new_corpus_is_empty(store):
    assert (store.revision, store.vector_count, store.dims) == (0, 0, DIMS)
    assert list(store.vectors()) == []
    assert store.deleted(0).shape == (0,)
    assert store.passages([1, 2, -1]) == ()
    stats = store.stats()
    assert (stats.documents, stats.chunks, stats.vectors, stats.pending) == (0, 0, 0, 0)
    assert stats.bytes > 0


def test_a_corpus_outlives_its_process(tmp_path):
    with CorpusStore.open(tmp_path, create=True) as store:
        store.set_embedder(STAMP)
        put(store, "a", "one", "two")
        revision = embed(store)
    with CorpusStore.open(tmp_path) as store:
        assert store.revision == revision == 1
        assert store.embedder == STAMP
        assert texts_searchable(store) == ["one", "two"]


def test_text_on_another_page_is_found_there(store):
    before = replace(document("a", "one\n\ntwo"), pages=(0, 5))
    after = replace(before, pages=(0, 0, 5))  # a page without text came in first
    outcomes = []
    for one in (before, after):
        found = chunk_document(one, Chunking(size=1))
        outcomes.append(store.documents.put_document(one, found))
        embed(store)
    assert outcomes == [PutOutcome.ADDED, PutOutcome.CHANGED]
    passages = store.passages(store.vector_ids().tolist())
    assert [(passage.text, passage.place.page) for passage in passages] == [("one", 2), ("two", 3)]


def test_opening_nothing_says_how_to_make_it(tmp_path):
    with pytest.raises(InputError, match=r"no corpus here; make one with: heddle index"):
        CorpusStore.open(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_opening_a_file_as_a_corpus(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="needs a directory"):
        CorpusStore.open(tmp_path / "file", create=True)


def test_using_a_closed_corpus_is_a_bug(tmp_path):
    store = CorpusStore.open(tmp_path, create=True)
    store.close()
    store.close()
    with pytest.raises(InternalError, match="closed"):
        _ = store.revision


def test_a_document_is_searchable_when_all_its_chunks_have_vectors(store):
    put(store, "a", "one", "two", "three")
    first, *rest = ids_pending(store)
    assert store.store_vectors([first], vectors_of([first])) == 0
    assert store.vector_count == store.count_vectors(4) == 0
    assert texts_searchable(store) == []
    assert store.passages([first]) == ()
    assert store.stats().vectors == 1
    assert store.store_vectors(rest, vectors_of(rest)) == 1
    assert texts_searchable(store) == ["one", "two", "three"]
    assert store.vector_count == 3
    assert [store.count_vectors(upto) for upto in (2, 3, 4)] == [2, 3, 3]


def test_vectors_come_back_as_they_went_in(store):
    put(store, "a", *(f"text {number}" for number in range(10)))
    embed(store)
    batches = list(store.vectors(batch_rows=3))
    assert [len(batch.chunk_ids) for batch in batches] == [3, 3, 3, 1]
    ids = np.concatenate([batch.chunk_ids for batch in batches])
    values = np.concatenate([batch.vectors for batch in batches])
    assert (ids.dtype, values.dtype) == (np.int64, np.float32)
    assert values.flags.c_contiguous
    assert batches[0].vectors.flags.writeable
    np.testing.assert_array_equal(values, vectors_of(ids.tolist()))


def test_the_old_version_is_searchable_until_the_new_one_is_whole(store):
    put(store, "a", "old one", "old two")
    embed(store)
    old_ids = [int(i) for batch in store.vectors() for i in batch.chunk_ids]
    put(store, "a", "new one", "new two", "new three")
    assert texts_searchable(store) == ["old one", "old two"]
    first, *rest = ids_pending(store)
    store.store_vectors([first], vectors_of([first]))
    assert texts_searchable(store) == ["old one", "old two"]
    assert store.deleted(0).tolist() == []
    assert store.store_vectors(rest, vectors_of(rest)) == 2
    assert texts_searchable(store) == ["new one", "new two", "new three"]
    assert store.deleted(1).tolist() == old_ids
    assert store.passages(old_ids) == ()
    assert store.stats().documents == 1


def test_a_version_that_is_overtaken_was_never_there(store):
    put(store, "a", "old")
    embed(store)
    put(store, "a", "newer")
    late = ids_pending(store)
    put(store, "a", "newest")
    assert [chunk.text for chunk in store.documents.pending_chunks(10)] == ["newest"]
    assert store.store_vectors(late, vectors_of(late)) == 1
    embed(store)
    assert texts_searchable(store) == ["newest"]
    assert not set(late) & set(store.deleted(0).tolist())


def test_content_that_is_back_to_the_live_version_needs_no_vectors(store):
    put(store, "a", "old")
    embed(store)
    put(store, "a", "new")
    put(store, "a", "old")
    assert ids_pending(store) == []
    assert texts_searchable(store) == ["old"]


def test_outcomes_of_putting(store):
    one, two = document("a", "one"), document("a", "two")
    assert store.documents.put_document(one, chunks("one")) is PutOutcome.ADDED
    assert store.documents.put_document(one, chunks("one")) is PutOutcome.UNCHANGED
    assert store.documents.put_document(two, chunks("two")) is PutOutcome.CHANGED


def test_the_revision_rises_when_a_document_comes_from_another_file(store):
    def put_from(name):
        one = replace(document("a", source=f"docs/{name}"), file=name)
        store.documents.put_document(one, chunks("one"))

    put_from("old.md")
    embed(store)
    before = store.revision
    put_from("old.md")
    assert store.revision == before
    put_from("new.md")
    assert store.revision == before + 1
    assert [p.place.file for p in store.passages(store.vector_ids())] == ["new.md"]


def test_a_document_without_chunks_is_refused_and_its_batch_undone(store):
    with pytest.raises(InputError, match="'b' has no text"):
        store.documents.put_documents([(document("a"), chunks("one")), (document("b"), ())])
    assert store.stats().documents == 0


def test_half_a_character_is_refused(store):
    with pytest.raises(InputError, match="half a character"):
        put(store, "a", "bad \ud800 text")
    assert store.stats().documents == 0


def test_deleting(store):
    put(store, "a", "one")
    put(store, "b", "two")
    embed(store)
    put(store, "b", "new")
    assert store.documents.delete_document("b")
    assert store.revision == 2
    assert texts_searchable(store) == ["one"]
    assert ids_pending(store) == []
    assert len(store.deleted(1)) == 1
    assert not store.documents.delete_document("b")
    assert store.revision == 2


def test_deleting_what_was_never_searchable_changes_no_revision(store):
    put(store, "a", "one")
    late = ids_pending(store)
    assert store.documents.delete_document("a")
    assert store.store_vectors(late, vectors_of(late)) == 0
    assert store.deleted(0).tolist() == []


def test_unknown_ids_and_retries_are_skipped(store):
    put(store, "a", "one")
    (chunk_id,) = ids_pending(store)
    assert store.store_vectors([chunk_id, 999, -1], vectors_of([chunk_id, 999, 1])) == 1
    assert store.store_vectors([chunk_id], vectors_of([5])) == 1
    (batch,) = store.vectors()
    np.testing.assert_array_equal(batch.vectors, vectors_of([chunk_id]))


def test_chunk_ids_are_never_used_again(store):
    put(store, "a", "one")
    first = ids_pending(store)
    store.documents.delete_document("a")
    put(store, "a", "one")
    assert not set(first) & set(ids_pending(store))


def test_replay_from_a_revision(store):
    put(store, "a", "one")
    embed(store)
    put(store, "b", "two")
    embed(store)
    put(store, "a", "three")
    embed(store)
    assert store.revision == 3

    def ids(after: int, upto: int | None) -> list[int]:
        found = store.vectors(after, upto_revision=upto)
        return [int(i) for batch in found for i in batch.chunk_ids]

    assert ids(0, None) == [2, 3]  # chunk 1 is deleted
    assert ids(2, None) == [3]
    assert ids(0, 2) == [2]
    assert store.deleted(0, upto_revision=2).tolist() == []
    assert store.deleted(2).tolist() == [1]
    assert ids(3, None) == []


@pytest.mark.parametrize("of", [1, 2, 3])
def test_parts_of_the_vectors_are_read_on_their_own(store, of):
    put(store, "a", *"123456")
    embed(store)
    put(store, "b", *"7890")
    embed(store)
    seen = []
    for number in range(of):
        batches = list(store.vectors(0, 2, number=number, of=of))
        assert all(len(batch.chunk_ids) == 2 for batch in batches[:-1])
        mine = [int(chunk_id) for batch in batches for chunk_id in batch.chunk_ids]
        assert all(chunk_id % of == number for chunk_id in mine)
        assert len(mine) == store.count_part(number, of)
        np.testing.assert_array_equal(
            np.concatenate([b.vectors for b in batches]), vectors_of(mine)
        )
        seen += mine
    assert sorted(seen) == list(range(1, 11))


def test_writing_while_vectors_are_read(store):
    for number in range(6):
        put(store, f"d{number}", f"text {number}")
        embed(store)
    seen = []
    for batch in store.vectors(batch_rows=2):
        seen.extend(batch.chunk_ids.tolist())
        store.documents.delete_document("d5")
        put(store, f"late{len(seen)}", f"late text {len(seen)}")
        embed(store)
    assert seen == [1, 2, 3, 4, 5]


def test_passages_keep_the_order_asked(store):
    put(store, "a", "one", "two", "three")
    embed(store)
    source: PassageSource = store
    found = source.passages([3, -1, 1, 77, 3])
    assert [passage.text for passage in found] == ["three", "one", "three"]
    assert found[0].document_id == "a"
    assert found[0].position == 2
    assert found[0].render() == "## a title\nthree\n\n"


def test_passages_take_numpy_ids_and_many(store):
    put(store, "a", *(f"text {number}" for number in range(3000)))
    embed(store)
    ids = np.arange(3000, 0, -1)
    assert [passage.chunk_id for passage in store.passages(ids)] == ids.tolist()


def test_wrong_dimensions(store):
    put(store, "a", "one")
    with pytest.raises(ConfigError, match=r"tiny \(4 dimensions, float32\).*heddle index"):
        store.store_vectors([1], np.zeros((1, 5), np.float32))
    with pytest.raises(ConfigError, match="for 2 chunks"):
        store.store_vectors([1, 2], np.zeros((1, DIMS), np.float32))
    assert store.stats().vectors == 0


def test_a_vector_that_is_not_finite(store):
    put(store, "a", "one", "two")
    bad = vectors_of([1, 2])
    bad[1, 2] = np.nan
    with pytest.raises(InputError, match="vector of chunk 2 "):
        store.store_vectors([1, 2], bad)
    assert store.stats().vectors == 0


def test_a_chunk_with_two_vectors(store):
    put(store, "a", "one", "two")
    first, second = ids_pending(store)
    with pytest.raises(InputError, match=f"chunk {second} has more than one vector"):
        store.store_vectors([first, second, second], vectors_of([1, 2, 3]))
    assert store.stats().vectors == 0


def test_vectors_need_an_embedder(tmp_path):
    with CorpusStore.open(tmp_path, create=True) as store:
        assert store.embedder is None
        assert store.dims == 0
        put(store, "a", "one")
        with pytest.raises(ConfigError, match="no embedder"):
            embed(store)


def test_another_embedder_is_refused_once_there_are_vectors(store):
    other = EmbedderStamp("other", 8, "bfloat16")
    store.set_embedder(other)  # nothing is embedded yet
    store.set_embedder(STAMP)
    put(store, "a", "one")
    embed(store)
    store.set_embedder(STAMP)
    with pytest.raises(ConfigError, match=r"tiny .*other .*heddle index PATH\.\.\. --into NEW_DIR"):
        store.set_embedder(other)
    assert store.embedder == STAMP
    with pytest.raises(ConfigError, match="0 dimensions"):
        store.set_embedder(EmbedderStamp("none", 0, "float32"))


def test_pending_chunks_are_given_after_an_id(store):
    put(store, "a", "one", "two")
    put(store, "b", "three")
    assert [chunk.text for chunk in store.documents.pending_chunks(2)] == ["one", "two"]
    assert [chunk.text for chunk in store.documents.pending_chunks(9, after=1)] == ["two", "three"]
    assert [chunk.text for chunk in store.documents.pending_chunks(9, after=2)] == ["three"]
    assert store.documents.pending_chunks(9, after=3) == ()


def test_ids_are_unique_within_a_run(store):
    scan = store.runs.begin_scan()
    store.documents.put_documents([(document("a", source="x"), chunks("one"))], scan=scan)
    with pytest.raises(InputError, match="'a' is not unique: twice in this file"):
        store.documents.put_documents([(document("a", "two", "x"), chunks("two"))], scan=scan)
    with pytest.raises(InputError, match="'a' is not unique: x;"):
        store.documents.put_documents([(document("a", "two", "y"), chunks("two"))], scan=scan)
    assert store.runs.begin_scan() > scan


def test_two_threads_write_at_once(store):
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for number in range(20):
                put(store, f"{name}{number}", f"one {name}{number}", f"two {name}{number}")
                embed(store, limit=2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    embed(store)
    assert store.vector_count == 80


def test_two_stores_on_one_directory(tmp_path: Path):
    with (
        CorpusStore.open(tmp_path, create=True) as writer,
        CorpusStore.open(tmp_path, create=True) as lane,
    ):
        writer.set_embedder(STAMP)
        put(writer, "a", "one")
        assert embed(lane) == 1
        assert texts_searchable(writer) == ["one"]
        writer.documents.delete_document("a")
        assert lane.deleted(1).tolist() == [1]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(1, 3)),
        st.tuples(st.just("embed"), st.just(""), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("replay"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(actions=ACTIONS)
def test_a_derived_index_that_replays_equals_one_built_anew(tmp_path_factory, actions):
    """After any actions, incremental replay and a fresh read see the same whole documents."""
    with CorpusStore.open(tmp_path_factory.mktemp("corpus"), create=True) as store:
        store.set_embedder(STAMP)
        held: set[int] = set()
        covered = 0
        expected: dict[str, set[str]] = {}  # document -> its searchable texts, or absent
        pending: dict[str, set[str]] = {}
        for step, (action, name, number) in enumerate([*actions, ("replay", "", 0)]):
            if action == "put":
                texts = [f"{name} {step} {part}" for part in range(number)]
                put(store, name, *texts)
                pending[name] = set(texts)
            elif action == "delete":
                store.documents.delete_document(name)
                expected.pop(name, None)
                pending.pop(name, None)
            elif action == "embed":
                embed(store, limit=number)
                waiting = {chunk.text.split()[0] for chunk in store.documents.pending_chunks(1000)}
                for done in set(pending) - waiting:
                    expected[done] = pending.pop(done)
            else:
                upto = store.revision
                for batch in store.vectors(covered, upto_revision=upto):
                    held |= set(batch.chunk_ids.tolist())
                held -= set(store.deleted(covered, upto_revision=upto).tolist())
                covered = upto
                fresh = {int(i) for batch in store.vectors() for i in batch.chunk_ids}
                assert held == fresh
                assert len(held) == store.vector_count
            wanted = sorted(text for texts in expected.values() for text in texts)
            assert sorted(texts_searchable(store)) == wanted


def test_it_is_known_with_how_many_neighbours_a_model_is_primed(store):
    both = PrimedWith.PRECEDING, PrimedWith.NEAREST
    assert [store.chunk_kv.neighbours_max("reader", one) for one in both] == [None, None]
    revision = store.revision
    store.chunk_kv.set_neighbours_max("reader", PrimedWith.PRECEDING, 10)
    store.chunk_kv.set_neighbours_max("reader", PrimedWith.PRECEDING, 7)
    store.chunk_kv.set_neighbours_max("other", PrimedWith.NEAREST, 3)
    assert [store.chunk_kv.neighbours_max("reader", one) for one in both] == [7, None]
    assert [store.chunk_kv.neighbours_max("other", one) for one in both] == [None, 3]
    assert store.revision == revision, "no search sees it"


def test_what_a_chunk_is_primed_with_can_be_read_chunk_by_chunk(store):
    put(store, "a", "one", "two", "three")
    put(store, "b", "four")
    embed(store)
    ids = [i for batch in store.vectors() for i in batch.chunk_ids.tolist()]
    before = [store.chunk_kv.passage_before(i) for i in ids]
    assert [None if p is None else p.text for p in before] == [None, "one", "two", None]
    batch = store.chunk_kv.vectors_of([ids[2], 99, ids[0]])
    assert batch.chunk_ids.tolist() == [ids[2], ids[0]]
    np.testing.assert_array_equal(batch.vectors, vectors_of([ids[2], ids[0]]))
    assert store.chunk_kv.vectors_of([]).vectors.shape == (0, DIMS)


def test_what_an_owner_has_is_counted_as_far_as_it_is_searchable(store):
    put(store, "a", "one", "two")
    assert store.chunk_kv.count_owned("", "") == 0
    embed(store)
    put(store, "a", "changed")
    assert (store.chunk_kv.count_owned("", ""), store.chunk_kv.count_owned("x", "")) == (2, 0)
    assert store.chunk_kv.count_owned("", "letters") == 0
