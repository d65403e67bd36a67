import pytest

from heddle.evals.metrics.retrieval import answer_in_passages, recall_at
from heddle.evals.question import given_passage
from tests.unit.evals.answering import LISBON, PORTO

CHUNK = given_passage("paper", "A paper", "The second piece.", position=1)


@pytest.mark.parametrize(
    ("k", "gold", "expected"),
    [
        (1, (("d1",),), 1.0),
        (1, (("d2",),), 0.0),
        (2, (("d2",),), 1.0),
        (None, (("d1",), ("d9",)), 0.5),  # each group is needed
        (1, (("d9", "d1"),), 1.0),  # any of a group will do
        (5, (("paper#1",),), 1.0),
        (5, (("paper#0",),), 0.0),
        (5, (), None),
    ],
)
def test_recall(k, gold, expected):
    assert recall_at(k, (LISBON, PORTO, CHUNK), gold) == expected


def test_recall_of_nothing_retrieved():
    assert recall_at(5, (), (("d1",),)) == 0.0


@pytest.mark.parametrize(
    ("answers", "requires_all", "expected"),
    [
        (("lisbon",), False, 1.0),
        (("on the Tagus",), False, 1.0),
        (("Lis",), False, 0.0),  # not a whole word
        (("Madrid", "Lisbon"), False, 1.0),
        (("Madrid", "Lisbon"), True, 0.0),
        (("Douro", "Lisbon"), True, 1.0),  # in different passages
        (("yes",), False, None),
        (("not in the notes",), False, None),
        (("no", "Lisbon"), False, 1.0),
        ((), False, None),
    ],
)
def test_answer_in_passages(answers, requires_all, expected):
    found = answer_in_passages(answers, (LISBON, PORTO), requires_all=requires_all)
    assert found == expected


def test_an_answer_does_not_run_from_one_passage_into_the_next():
    assert answer_in_passages(("Tagus Porto",), (LISBON, PORTO)) == 0.0
