"""Which passage precedes which in a document; a passage at another distance."""

from dataclasses import replace

import pytest

from heddle.core.passages import Passage, Place

FIRST = Passage(7, "doc", "title", "text", position=3, tenant="a", collection="b")
NEXT = replace(FIRST, chunk_id=8, position=4)


def test_a_chunk_precedes_the_next_of_its_document():
    assert FIRST.precedes(NEXT)
    assert not NEXT.precedes(FIRST)
    assert not FIRST.precedes(FIRST)


@pytest.mark.parametrize(
    "change", [{"document_id": "other"}, {"tenant": "c"}, {"collection": "c"}, {"position": 5}]
)
def test_it_precedes_nothing_else(change):
    assert not FIRST.precedes(replace(NEXT, **change))


def test_at_another_distance_all_else_stays():
    place = Place("notes/mill.txt", 2, ("Mills",), 3, 9)
    passage = replace(FIRST, place=place, copies=2, score=0.5, distance=1.0)
    assert passage.at_distance(0.25) == replace(passage, distance=0.25)
