import pytest

from heddle.core.errors import InputError
from heddle.evals.metrics.normalized_f1 import normalized_f1


def test_the_example_of_the_paper():
    # FusionRAG §5.1: Mistral-7B on TriviaQA.
    found = normalized_f1([0.781] * 20, [0.852] * 20, [0.712] * 20, seed=0)
    assert found.share.mean == pytest.approx(0.492, abs=0.001)
    assert (found.method.mean, found.full_attention.mean, found.full_reuse.mean) == pytest.approx(
        (0.781, 0.852, 0.712)
    )
    assert found.is_stable


def test_ends_of_the_scale():
    full, reuse = [0.9, 0.8, 1.0, 0.7] * 5, [0.4, 0.5, 0.6, 0.2] * 5
    for values, share in ((full, 1.0), (reuse, 0.0)):
        found = normalized_f1(values, full, reuse, seed=0).share
        assert (found.mean, found.low, found.high) == pytest.approx((share, share, share))
    assert normalized_f1([1.0] * 20, full, reuse, seed=0).share.mean > 1


def test_undefined_where_reuse_loses_nothing():
    found = normalized_f1([0.5, 0.5], [0.5, 0.7], [0.7, 0.5], seed=0)
    assert found.share is None
    assert not found.is_stable
    assert found.method.mean == 0.5


def test_unstable_where_the_loss_is_small_or_may_be_chance():
    small = normalized_f1([0.5] * 10, [0.51] * 10, [0.5] * 10, seed=0)
    assert small.share.mean == pytest.approx(0.0)
    assert not small.is_stable
    full, reuse = [1.0, 0.0] * 6, [0.0, 1.0] * 5 + [0.0, 0.0]
    by_chance = normalized_f1(reuse, full, reuse, seed=0)
    assert by_chance.loss.mean > 0.05
    assert not by_chance.is_stable


@pytest.mark.parametrize("sizes", [(0, 0, 0), (2, 2, 1)])
def test_refusals(sizes):
    with pytest.raises(InputError, match="same questions"):
        normalized_f1(*([0.5] * size for size in sizes), seed=0)
