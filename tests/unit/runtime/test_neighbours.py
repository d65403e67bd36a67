"""What a chunk may be primed with: others' texts, of its own owner, each once."""

from dataclasses import replace

from heddle.core.passages import Passage
from heddle.runtime.neighbours import neighbours_of


def passage(chunk_id, text=None, tenant="", collection=""):
    text = f"text {chunk_id}" if text is None else text
    return Passage(chunk_id, "doc", "title", text, tenant=tenant, collection=collection)


CHUNK = passage(1)


def ids(near, count_max=10, chunk=CHUNK):
    return [p.chunk_id for p in neighbours_of(chunk, near, count_max)]


def test_the_nearest_in_their_order_but_never_the_chunk_itself():
    near = [CHUNK, passage(5), passage(3), passage(4)]
    assert ids(near) == [5, 3, 4]
    assert ids(near, 2) == [5, 3]
    assert ids(near, 0) == []
    assert ids([passage(5), CHUNK, passage(3)], 1) == [5]


def test_equal_texts_count_once_and_the_chunk_s_own_not_at_all():
    near = [passage(2, CHUNK.text), passage(3, "same"), passage(4, "same"), passage(5)]
    assert ids(near) == [3, 5]


def test_nothing_of_another_tenant_or_collection():
    near = [
        passage(2, tenant="a"),
        passage(3, collection="b"),
        passage(4),
        passage(5, tenant="a", collection="b"),
    ]
    assert ids(near) == [4]
    assert ids(near, chunk=passage(9, tenant="a", collection="b")) == [5]
    # A text that others own as well is still theirs, and not shown for it.
    theirs = replace(passage(6, "shared"), tenant="a")
    assert ids([theirs, passage(7, "shared")]) == [7]
