"""The sub-stage budget is where HedraRAG's gain is largest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.costs.substage import (
    SearchCall,
    StepCost,
    replayed_s,
    substage_budget_s,
    substage_gain_s,
)

seconds = st.floats(min_value=1e-4, max_value=10.0)


@given(retrieval_s=seconds, overhead_s=seconds, share=st.floats(min_value=0.01, max_value=1.0))
def test_no_other_budget_gains_more(retrieval_s: float, overhead_s: float, share: float) -> None:
    best_s = substage_budget_s(retrieval_s, overhead_s)
    other_s = share * retrieval_s
    best = substage_gain_s(retrieval_s, overhead_s, best_s)
    assert best >= substage_gain_s(retrieval_s, overhead_s, other_s) - 1e-9 * max(1.0, abs(best))


@given(retrieval_s=seconds, overhead_s=seconds)
def test_the_budget_is_within_the_stage(retrieval_s: float, overhead_s: float) -> None:
    assert 0 < substage_budget_s(retrieval_s, overhead_s) <= retrieval_s


@pytest.mark.parametrize("times", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_times_must_be_positive(times: tuple[float, float]) -> None:
    with pytest.raises(ConfigError):
        substage_budget_s(*times)


FREE = StepCost(0.0, 0.0)


def test_whole_batches_end_together_and_hold_up_what_comes_meanwhile():
    calls = [SearchCall(0.0, 1.0), SearchCall(0.5, 1.0), SearchCall(0.6, 2.0)]
    assert replayed_s(calls, math.inf, FREE) == pytest.approx([1.0, 3.5, 3.4])


def test_the_shortest_goes_first_and_a_search_that_fits_is_not_cut():
    calls = [SearchCall(0.0, 1.0), SearchCall(0.5, 2.0), SearchCall(0.6, 1.0)]
    assert replayed_s(calls, 2.0, FREE) == pytest.approx([1.0, 3.5, 1.4])


def test_a_long_one_is_cut_and_lets_short_ones_by():
    calls = [SearchCall(0.0, 4.0), SearchCall(0.5, 1.0)]
    assert replayed_s(calls, 1.0, FREE) == pytest.approx([5.0, 1.5])


def test_each_step_costs_its_overhead_and_each_search_in_it_its_own():
    calls = [SearchCall(0.0, 1.0), SearchCall(0.0, 1.0)]
    both = replayed_s(calls, math.inf, StepCost(0.1, 0.01))
    assert both == pytest.approx([2.12, 2.12])
    assert replayed_s(calls, 1.2, StepCost(0.1, 0.01)) == pytest.approx([1.11, 2.22])


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(1e-3, 2)), min_size=1, max_size=20),
    st.floats(0.01, 5),
    st.floats(1e-3, 0.1),
)
def test_no_search_takes_less_than_its_work_and_no_work_is_lost(drawn, budget_s, step_s):
    calls = [SearchCall(*pair) for pair in sorted(drawn)]
    took_s = replayed_s(calls, budget_s, StepCost(step_s, 0.0))
    assert all(took >= call.work_s for took, call in zip(took_s, calls, strict=True))
    last_s = max(took + call.sent_s for took, call in zip(took_s, calls, strict=True))
    assert last_s >= calls[0].sent_s + sum(call.work_s for call in calls) - 1e-6
