import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.costs.prefill import prefill_token_s


def test_a_token_bears_its_share_of_the_call_and_of_what_it_looks_at():
    costs = CostSnapshot("llm", 1, {"call": 0.2, "prefill_tokens": 0.01, "context_tokens": 1e-4})
    assert prefill_token_s(costs, 0, 100) == pytest.approx(0.012)
    assert prefill_token_s(costs, 1000, 100) == pytest.approx(0.013)
    assert prefill_token_s(costs, 0, 10) == pytest.approx(0.03)
