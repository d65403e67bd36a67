import pytest

from heddle.evals.scores import METRICS, scores_by_kind
from tests.unit.evals.answering import LISBON, PORTO, question, scored


def test_a_retrieved_answer():
    asked = question(answers=("Lisbon", "Lisboa"), gold=(("d2",),))
    values = scored("Lisbon city", asked, (LISBON, PORTO)).values
    assert set(values) == set(METRICS)
    assert values["exact_match"] == 0.0
    assert values["f1"] == values["rouge_1"] == values["rouge_l"] == pytest.approx(2 / 3)
    assert values["word_overlap"] == 0.5
    assert values["answer_in_passages"] == 1.0
    assert [values[name] for name in ("recall@1", "recall@5", "recall")] == [0.0, 1.0, 1.0]


def test_recall_is_undefined_where_the_passages_were_given():
    asked = question(gold=(("d1",),))
    assert scored("Lisbon", asked, (LISBON,), passages=(LISBON,)).values["recall"] is None


def test_a_failure_counts_as_wrong():
    values = scored(None, question(gold=(("d1",),))).values
    assert [values[name] for name in METRICS[:4]] == [0.0] * 4
    assert all(values[name] is None for name in METRICS[4:])


def test_a_failure_is_wrong_even_where_nothing_would_be_right():
    assert scored(None, question(answers=("the",))).values["exact_match"] == 0.0


def test_without_known_answers_only_the_passages_are_measured():
    values = scored("Lisbon", question(answers=()), (LISBON,)).values
    assert values["exact_match"] is None
    assert values["word_overlap"] == 1.0


def test_all_answers_together():
    asked = question(answers=("2018", "2019"), requires_all_answers=True)
    assert scored("2019 and 2018", asked).values["exact_match"] == 1.0
    half = scored("2018", asked).values
    assert half["exact_match"] == 0.0
    assert half["f1"] == pytest.approx(2 / 3)


def test_means_by_kind():
    kinds = {"two_hop": ["Lisbon", "Porto", None], "comparison": ["Lisbon"]}
    many = [
        scored(text, question(f"{kind}{i}", kind=kind))
        for kind, given in kinds.items()
        for i, text in enumerate(given)
    ]
    comparison, two_hop, everything = scores_by_kind(many, seed=0)
    assert [one.kind for one in (comparison, two_hop, everything)] == [
        "comparison",
        "two_hop",
        "all",
    ]
    assert (two_hop.questions, two_hop.failed) == (3, 1)
    assert two_hop.means["exact_match"].mean == pytest.approx(1 / 3)
    assert comparison.means["exact_match"].mean == 1.0
    assert everything.means["exact_match"].mean == 0.5
    assert everything.means["recall"] is None


def test_questions_of_no_kind_give_one_row():
    (only,) = scores_by_kind([scored("Lisbon")], seed=0)
    assert (only.kind, only.questions) == ("all", 1)
