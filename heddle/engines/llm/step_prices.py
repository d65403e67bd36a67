"""What an engine's next steps will take, by its own cost model."""

import math
from collections.abc import Collection
from typing import Final

from heddle.costs.prefill import prefill_token_s
from heddle.costs.step_report import StepReport
from heddle.engines.llm.draft import NOTHING_DRAFTED, DraftPrice
from heddle.engines.llm.reuse.guard import Outlook
from heddle.engines.llm.scheduler import Scheduler
from heddle.engines.llm.sequence import Sequence

PREFILL_TOKENS_MIN: Final = 16  # a step always moves prompts by this much, however small its budget


class StepPrices:
    """Predicts steps and their parts from what earlier steps took."""

    def __init__(self, scheduler: Scheduler, report: StepReport) -> None:
        self._scheduler = scheduler
        self._report = report

    def next_step_s(self) -> float:
        """Return how long the next step should take [s]."""
        return self._report.costs.predict_s(self._scheduler.backlog())

    def alone_s(self, tokens: int) -> float:
        """Return how long a step with one prompt of `tokens` tokens and nothing else takes [s]."""
        step = {"call": 1.0, "prefill_tokens": float(tokens), "context_tokens": float(tokens)}
        return self._report.costs.predict_s(step)

    def prompt_token_s(self, prompt_tokens: int) -> float:
        """Return how long one token takes of a prompt of `prompt_tokens` in full steps [s]."""
        step_tokens = self._scheduler.limits.max_num_batched_tokens
        return prefill_token_s(self._report.costs, prompt_tokens, step_tokens)

    def outlook(self, exact_tokens: int = 0, tokens_ahead: int = 0) -> Outlook:
        """Return what a prompt meets that comes now.

        Args:
            exact_tokens: its first tokens that are computed, or in the prefix cache.
            tokens_ahead: prompt tokens that are computed before it.
        """
        scheduler = self._scheduler
        return Outlook(
            self._report.costs,
            scheduler.limits.max_num_batched_tokens,
            exact_tokens,
            tokens_ahead,
            scheduler.running_count,
        )

    def prefill_tokens_within(self, budget_s: float) -> int:
        """Return how many prompt tokens the next step has time for beside its decodes."""
        tokens_max = self._scheduler.limits.max_num_batched_tokens
        if math.isinf(budget_s):
            return tokens_max
        fixed = {**self._scheduler.backlog(), "prefill_tokens": 0.0}
        one_s = self._report.costs.predict_s({"prefill_tokens": 1.0})
        left_s = budget_s - self._report.costs.predict_s(fixed)
        tokens = int(left_s / one_s) if one_s > 0 else tokens_max
        return min(max(tokens, PREFILL_TOKENS_MIN), tokens_max)

    def draft_price(self, decoding: Collection[Sequence]) -> DraftPrice:
        """Return the price, for all that are in the next step, of checking drafted tokens.

        `decoding` are the sequences that may have a draft.
        """
        if not any(s.decode and s.decode.may_draft for s in decoding):
            return NOTHING_DRAFTED
        scheduler, costs = self._scheduler, self._report.costs
        wanted = scheduler.running_count + scheduler.waiting_count
        seated = min(wanted, scheduler.limits.max_num_seqs)
        step = scheduler.backlog()
        step |= {"prefill_tokens": 0.0, "decode_tokens": max(1.0, step["decode_tokens"])}
        step_s = costs.predict_s(step)
        if not step_s:
            return NOTHING_DRAFTED
        row_s, token_s = (
            costs.predict_s({name: 1.0}) for name in ("drafted_rows", "prefill_tokens")
        )
        return DraftPrice(seated * row_s / step_s, seated * token_s / step_s)
