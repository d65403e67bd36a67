"""Documents are the same up to distance ties; answers are those of a process where Ray places."""

import pytest

from benchmarks.coscheduling.placed_by_ray import Outcome, Search, same_documents
from heddle.core.passages import Passage

FOUND = ((3, 0.5), (1, 0.25 + 5e-7), (2, 0.25))


def outcome(*found: tuple[int, float], node: str = "search") -> Outcome:
    passages = tuple(Passage(n, "d", "", "", distance) for n, distance in found)
    return Outcome("text", (Search(node, passages),))


def test_passages_as_far_from_the_query_may_change_places() -> None:
    first, second, third = FOUND
    assert same_documents(outcome(*FOUND), outcome(*FOUND))
    assert same_documents(outcome(*FOUND), outcome(first, third, second))


@pytest.mark.parametrize(
    "other",
    [
        outcome(*FOUND[:2]),
        outcome(*FOUND, node="other"),
        outcome(*FOUND[::-1]),
        Outcome("text", ()),
    ],
)
def test_other_documents_are_told(other: Outcome) -> None:
    assert not same_documents(outcome(*FOUND), other)
