"""Which share of its reused tokens a prompt computes anew."""

import math
from dataclasses import dataclass

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.kv_reuse import AUTO, RATIO_DEFAULT, ReusePolicy
from heddle.costs.prefill import prefill_token_s
from heddle.costs.reuse_ratio import largest_ratio
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt
from heddle.engines.llm.fusion.selection import budget_of


@dataclass(frozen=True, slots=True)
class RatioChoice:
    """A prompt's ratio; `note` says why it is neither the one asked for nor the deadline's."""

    ratio: float
    note: str = ""


def chosen_ratio(
    prompt: FusedPrompt, left_s: float, costs: CostSnapshot, step_tokens: int
) -> RatioChoice:
    """Return the ratio asked for, or the largest with which the prompt is in before its time.

    Where finding out what to compute would take as long as computing all of it, it is 1. Full reuse
    computes nothing anew below 1: there it is 0.

    Args:
        prompt: as it gets its seat.
        left_s: time until the prompt must be in [s]; infinite without a deadline.
        costs: of the engine's steps.
        step_tokens: most prompt tokens of a step.
    """
    asked = prompt.options.ratio
    ratio = _in_time(prompt, left_s, costs, step_tokens) if asked == AUTO else float(asked)
    if prompt.options.policy is ReusePolicy.FULL_REUSE and ratio < 1.0:
        return RatioChoice(0.0)  # it computes nothing anew, whichever share is named
    if ratio == 1.0 or not _saves_nothing(prompt, ratio):
        return RatioChoice(ratio)
    return RatioChoice(
        1.0,
        f"the prompt was computed whole: its question of {len(prompt.question)} tokens would have "
        f"taken as long to select the {ratio:.0%} to compute",
    )


def _saves_nothing(prompt: FusedPrompt, ratio: float) -> bool:
    """Whether the question has as many tokens to select with as there are to be saved."""
    spans = prompt.candidate_spans
    budget = budget_of(spans, ratio)
    selects = prompt.options.policy is ReusePolicy.FUSIONRAG and not prompt.ahead.scores
    saved = sum(span.tokens for span in spans) - budget
    return selects and budget > 0 and len(prompt.question) >= saved


def _in_time(prompt: FusedPrompt, left_s: float, costs: CostSnapshot, step_tokens: int) -> float:
    if math.isinf(left_s):
        return RATIO_DEFAULT
    token_s = prefill_token_s(costs, prompt.layout.tokens, step_tokens)
    other_s = len(prompt.uncovered) * token_s
    if prompt.options.policy is ReusePolicy.FUSIONRAG and not prompt.ahead.scores:
        other_s += len(prompt.question) * token_s
    if prompt.options.policy is ReusePolicy.CACHEBLEND:
        checked = prompt.layout.tokens - prompt.exact_tokens
        other_s += costs.predict_s({"checked_tokens": checked})
    reused = sum(span.tokens for span in prompt.candidate_spans)
    return largest_ratio(reused, token_s, left_s - other_s)
