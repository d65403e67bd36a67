"""Passages by their words."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.core.errors import Cancelled
from heddle.core.search_scope import SearchScope, metadata_of, where_of
from heddle.corpus.rows.searched_words import WORDS_MAX, searched_words
from heddle.corpus.sqlite import word_search
from tests.unit.corpus.corpora import chunks, document, embed, put, vectors_of


def found(store, text, limit=10, scope=SearchScope()):  # noqa: B008 - a frozen value
    batch = store.by_words(text, limit, scope)
    np.testing.assert_array_equal(batch.vectors, vectors_of(batch.chunk_ids.tolist()))
    return [passage.text for passage in store.passages(batch.chunk_ids.tolist())]


@pytest.fixture
def harbour(store):
    put(store, "a", "The harbour master keeps cats", "Ropes are tarred in spring")
    put(store, "b", "A cat sleeps on the ropes, and another cat on the quay")
    put(store, "c", "Nothing of note")
    embed(store)
    return store


def test_rare_words_count_and_stems_are_compared(harbour):
    cats = "A cat sleeps on the ropes, and another cat on the quay"
    assert found(harbour, "Where is the cat?") == [cats, "The harbour master keeps cats"]
    assert found(harbour, "HARBOURS") == ["The harbour master keeps cats"]
    assert found(harbour, "who keeps ropes of cats", limit=1) == ["The harbour master keeps cats"]
    assert found(harbour, "spectrometer") == []


@pytest.mark.parametrize("text", ["", "  ?!", '"', 'cat" OR "x', "cat AND", "a*", "NEAR(cat)", "-"])
def test_any_text_can_be_searched_for(harbour, text):
    found(harbour, text)


def test_common_words_are_left_out_unless_there_are_no_others():
    assert searched_words("Where is the cat, cat?") == ["cat"]
    assert searched_words("who is it") == ["who", "is", "it"]
    assert len(searched_words(" ".join(f"w{n}" for n in range(99)))) == WORDS_MAX


def test_only_what_is_live_and_in_scope(harbour):
    item = replace(document("d"), tenant="ann", metadata=metadata_of({"lang": "en"}))
    harbour.documents.put_document(item, chunks("A cat of Ann's"))
    put(harbour, "c", "A cat that waits")
    everybodys = found(harbour, "cat")
    assert len(everybodys) == 2
    embed(harbour)
    assert set(found(harbour, "cat")) == {*everybodys, "A cat that waits"}
    ann = SearchScope("ann")
    assert set(found(harbour, "cat", scope=ann)) == {
        *everybodys,
        "A cat that waits",
        "A cat of Ann's",
    }
    assert found(harbour, "cat", scope=SearchScope("ann", where_of({"lang": "en"}))) == [
        "A cat of Ann's"
    ]
    harbour.documents.delete_document("b")
    harbour.documents.delete_document("d", tenant="ann")
    assert "A cat of Ann's" not in found(harbour, "cat", scope=ann)


def test_a_cancelled_search_stops_and_the_next_one_works(harbour, monkeypatch):
    monkeypatch.setattr(word_search, "STEPS_BETWEEN_LOOKS", 1)
    with pytest.raises(Cancelled, match="no longer wanted"):
        harbour.by_words("cats", 10, SearchScope(), lambda: True)
    assert len(found(harbour, "cats")) == 2


def test_other_tenants_words_change_no_rank(store):
    # Among everybody's texts "rope" is rare and "quay" common, which ranks the first text first.
    own = [
        ("a", "A rope hangs there"),
        ("b", "The quay lies there"),
        ("c", "Another quay is far off"),
    ]
    fill = [(f"f{n}", f"Plain text of number {n}") for n in range(9)]
    for name, text in (*own, *fill):
        put(store, name, text)
    embed(store)
    alone = found(store, "rope quay")
    for number in range(40):
        item = replace(document(f"x{number}"), tenant="bob")
        store.documents.put_document(item, chunks(f"Rope and rope again, {number}"))
    embed(store)
    assert found(store, "rope quay", scope=SearchScope("ann")) == alone
    assert alone[0] == "A rope hangs there"
    assert found(store, "rope quay", scope=SearchScope("bob"))[0] != alone[0]
    assert found(store, "again", scope=SearchScope("ann")) == []
