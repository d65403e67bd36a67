"""Depths: the paper's tables exactly, monotone in everything, and closed with a way out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.costs.batch_cost import BatchCost, BatchShape, queue_depth

LENGTH = 75
# α and β as they follow from Table III's rows of linear regression, and its depths.
DEVICES = [
    (1 / 56, 1 - 40 / 56, (40, 96)),
    (1 / 12, 1 - 8 / 12, (8, 20)),
    (1 / 111, 1 - 84 / 111, (84, 195)),
    (1 / 13, 1 - 2 / 13, (2, 15)),
]
costs = st.builds(BatchCost, st.floats(0, 1), st.floats(1e-6, 1e-2), st.floats(0, 1e-6))


@pytest.mark.parametrize(("alpha_s", "beta_s", "depths"), DEVICES)
def test_the_virtual_lanes_of_table_iii(
    alpha_s: float, beta_s: float, depths: tuple[int, int]
) -> None:
    cost = BatchCost.from_queries(alpha_s, beta_s, LENGTH)
    assert tuple(queue_depth(cost, slo_s, LENGTH).queries for slo_s in (1.0, 2.0)) == depths
    assert cost.latency_slope_s(LENGTH) == pytest.approx(alpha_s)


@given(cost=costs, slo_s=st.floats(1e-3, 10), length=st.integers(1, 512))
def test_the_depth_is_the_largest_that_keeps_the_slo(
    cost: BatchCost, slo_s: float, length: int
) -> None:
    queries = queue_depth(cost, slo_s, length).queries
    within = cost.predict_s(BatchShape.uniform(queries, length)) if queries else 0.0
    assert within <= slo_s * (1 + 1e-4)
    assert cost.predict_s(BatchShape.uniform(queries + 1, length)) > slo_s * (1 - 1e-4)


@given(cost=costs, slo_s=st.floats(1e-3, 10), step=st.integers(75, 4096))
def test_steps_bound_a_batch_and_each_costs_the_intercept(
    cost: BatchCost, slo_s: float, step: int
) -> None:
    queries = queue_depth(cost, slo_s, LENGTH, batch_tokens_max=step).queries
    batches = math.ceil(queries / (step // LENGTH))
    assert cost.predict_s(BatchShape.uniform(queries, LENGTH), batches) <= slo_s * (1 + 1e-4)
    assert queries <= queue_depth(cost, slo_s, LENGTH).queries


@given(cost=costs, slo_s=st.floats(1e-3, 10), margin=st.floats(1, 3))
def test_a_margin_never_deepens(cost: BatchCost, slo_s: float, margin: float) -> None:
    plain = queue_depth(cost, slo_s, LENGTH).queries
    assert queue_depth(cost, slo_s, LENGTH, margin=margin).queries <= plain


def test_memory_is_a_second_bound() -> None:
    cost = BatchCost(0.0, 1e-5)
    depth = queue_depth(cost, 1.0, LENGTH, tokens_max=750)
    assert (depth.queries, depth.is_room_bound) == (10, True)
    assert depth.line("gpu0").endswith("all that it has room for")


def test_a_closed_lane_names_the_slo_that_opens_it() -> None:
    cost = BatchCost(0.846, 0.0769 / LENGTH)
    depth = queue_depth(cost, 0.5, LENGTH)
    assert depth.is_closed
    assert "an SLO of 923 ms would open it" in depth.line("cpu0")
    assert not queue_depth(cost, 0.923, LENGTH).is_closed


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_cost_refuses_what_is_no_time(value: float) -> None:
    with pytest.raises(ConfigError, match="token_s"):
        BatchCost(0.0, value)
