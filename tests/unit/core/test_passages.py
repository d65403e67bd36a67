"""Which passage precedes which in a document."""

from dataclasses import replace

import pytest

from heddle.core.passages import Passage

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
