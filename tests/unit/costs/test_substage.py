"""The sub-stage budget is where HedraRAG's gain is largest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.errors import ConfigError
from heddle.costs.substage import substage_budget_s, substage_gain_s

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
