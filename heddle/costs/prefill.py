"""What one more prompt token costs, by an engine's own step times."""

from heddle.core.cost_snapshot import CostSnapshot


def prefill_token_s(costs: CostSnapshot, context_tokens: int, step_tokens: int) -> float:
    """Return the predicted time of one prompt token in a full step, its share of the call's [s].

    Args:
        costs: of the engine's steps.
        context_tokens: tokens that each step of the prompt looks at.
        step_tokens: most prompt tokens of a step.
    """
    step = {"call": 1, "prefill_tokens": step_tokens, "context_tokens": context_tokens}
    return costs.predict_s(step) / step_tokens
