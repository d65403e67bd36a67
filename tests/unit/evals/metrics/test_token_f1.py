import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.exact_match import exact_match
from heddle.evals.metrics.token_f1 import token_f1

WORDS = ["the", "a", "red", "fox,", "fox.", "ran", "12", "Ünder", "x-y"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("Lisbon", ("Lisbon",), 1.0),
        ("Lisbon Portugal", ("Lisbon",), 2 / 3),  # precision 1/2, recall 1
        ("city of Lisbon", ("Porto", "the city of Porto"), 2 / 3),  # the best answer counts
        ("red red fox", ("red fox fox",), 2 / 3),  # bags: one red and one fox are shared
        ("Porto", ("Lisbon",), 0.0),
        ("", ("Lisbon",), 0.0),
        ("the", ("a",), 1.0),  # both are empty once normalised
        ("Lisbon", (), 0.0),
    ],
)
def test_token_f1(answer, accepted, expected):
    assert token_f1(answer, accepted) == pytest.approx(expected)


@given(TEXTS, TEXTS)
def test_bounded_and_symmetric(one, other):
    value = token_f1(one, (other,))
    assert 0.0 <= value <= 1.0
    assert value == token_f1(other, (one,))
    assert token_f1(one, (one,)) == 1.0


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_an_exact_match_has_the_whole_f1(answer, accepted):
    assert token_f1(answer, accepted) >= exact_match(answer, accepted)
