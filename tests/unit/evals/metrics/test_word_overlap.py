import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.word_overlap import word_overlap
from tests.unit.evals.answering import LISBON, PORTO


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Lisbon", 1.0),
        ("The capital Madrid", 0.5),  # the article doesn't count
        ("Portugal", 1.0),  # in a title
        ("Lisbon and the Douro", 2 / 3),  # over all passages; "and" stands nowhere
        ("Madrid, Madrid, Lisbon", 1 / 3),  # each occurrence counts
        ("Lisb", 0.0),  # whole words only
        ("", None),
        ("Yes.", None),
        ("no", None),
        ("Not in the notes", None),
    ],
)
def test_share_of_supported_words(answer, expected):
    found = word_overlap(answer, (LISBON, PORTO))
    assert found == (None if expected is None else pytest.approx(expected))


def test_without_passages_nothing_is_supported():
    assert word_overlap("Lisbon", ()) == 0.0


@given(st.text())
def test_bounded_and_more_passages_support_no_less(answer):
    fewer, more = word_overlap(answer, (LISBON,)), word_overlap(answer, (LISBON, PORTO))
    assert (fewer is None) == (more is None)
    if fewer is not None:
        assert 0.0 <= fewer <= more <= 1.0
