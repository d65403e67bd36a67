import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.rouge import rouge_1, rouge_l

WORDS = ["the", "red", "fox,", "ran", "12", "über", "x-y"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("answer", "reference", "one", "longest"),
    [
        ("police killed the gunman", "police kill the gunman", 3 / 4, 3 / 4),  # Lin 2004, §3
        ("the gunman kill police", "police kill the gunman", 1.0, 1 / 2),
        ("the fox", "fox", 2 / 3, 2 / 3),  # articles count here
        ("x-y", "x y", 1.0, 1.0),  # punctuation parts words
        ("Über", "über", 1.0, 1.0),
        ("", "fox", 0.0, 0.0),
        ("", "", 1.0, 1.0),
    ],
)
def test_hand_computed(answer, reference, one, longest):
    assert rouge_1(answer, (reference,)) == pytest.approx(one)
    assert rouge_l(answer, (reference,)) == pytest.approx(longest)


def test_the_best_reference_counts():
    assert rouge_l("fox", ("hen", "fox")) == 1.0
    assert rouge_1("fox", ()) == 0.0


@given(TEXTS, TEXTS)
def test_bounds_symmetry_and_order(one, other):
    in_order, unordered = rouge_l(one, (other,)), rouge_1(one, (other,))
    assert 0.0 <= in_order <= unordered <= 1.0
    assert in_order == rouge_l(other, (one,))
    assert unordered == rouge_1(other, (one,))
    assert rouge_l(one, (one,)) == 1.0
