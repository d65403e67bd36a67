"""A few bursts find the depth of a lane, exactly without noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.costs.batch_cost import BatchCost, BatchShape, queue_depth
from heddle.costs.depth_probing import DepthProbing

LENGTH = 75
QUERIES_MAX = 512


def probe(probing: DepthProbing, cost: BatchCost) -> list[int]:
    sizes = []
    while (queries := probing.next()) is not None:
        sizes.append(queries)
        probing.take(queries, cost.predict_s(BatchShape.uniform(queries, LENGTH)))
    return sizes


@given(alpha_s=st.floats(1e-3, 0.2), beta_s=st.floats(0, 0.5), slo_s=st.floats(0.05, 2.0))
def test_without_noise_the_depth_is_exact(alpha_s: float, beta_s: float, slo_s: float) -> None:
    cost = BatchCost.from_queries(alpha_s, beta_s, LENGTH)
    probing = DepthProbing((slo_s,), LENGTH, QUERIES_MAX)
    sizes = probe(probing, cost)
    true = min(queue_depth(cost, slo_s, LENGTH).queries, QUERIES_MAX)
    assert len(sizes) <= 15
    assert abs(probing.depth(slo_s).queries - true) <= 1e-3 * true + 1e-9 or true == 0
    assert max(sizes) <= max(4, true + 1)


def test_both_slos_get_bursts_of_their_own() -> None:
    cost = BatchCost.from_queries(1 / 56, 1 - 40 / 56, LENGTH)
    sizes = probe(DepthProbing((1.0, 2.0), LENGTH, QUERIES_MAX), cost)
    assert sizes.count(40) >= 3
    assert sizes.count(96) >= 6


def test_it_ends_when_its_time_is_up() -> None:
    cost = BatchCost.from_queries(0.1, 0.1, LENGTH)
    probing = DepthProbing((10.0,), LENGTH, QUERIES_MAX, time_s_max=2.0)
    probe(probing, cost)
    assert probing.seconds <= 2.5


def test_it_needs_an_slo() -> None:
    with pytest.raises(ConfigError, match="SLOs above 0"):
        DepthProbing((0.0,), LENGTH, 8)
