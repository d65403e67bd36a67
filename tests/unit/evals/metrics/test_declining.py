import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.declining import auroc, declined_at

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


def test_scores_that_tell_all():
    assert auroc([2.0, 3.0], [0.0, 1.0]) == 1.0
    assert auroc([0.0], [1.0]) == 0.0
    assert auroc([1.0], [1.0]) == 0.5
    assert auroc([], [1.0]) is None


@given(scores, scores)
def test_auroc_is_the_share_of_pairs(positive, negative):
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    assert auroc(positive, negative) == pytest.approx(sum(pairs) / len(pairs))


def test_the_share_declined_where_most_answers_are_kept():
    positive = [float(score) for score in range(100)]
    declined, threshold = declined_at(0.95, positive, [0.0, 4.0, 5.5, 50.0])
    assert threshold == pytest.approx(4.95)
    assert declined == 0.5
    assert declined_at(0.95, [], [0.0]) == (0.0, float("-inf"))
    assert declined_at(0.95, positive, []) == (0.0, pytest.approx(4.95))
