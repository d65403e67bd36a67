"""What is settled about a fused prompt at the moment it gets its seat."""

from dataclasses import replace

from heddle.core.ports import Clock
from heddle.costs.step_report import StepReport
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ScoredAhead
from heddle.engines.llm.fusion.ratio_choice import RatioChoice, chosen_ratio
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.sequence import Sequence


class SeatChoices:
    """Chooses how much of a fused prompt is computed anew, by time and by its question.

    Args:
        report: has the costs of the engine's steps.
        clock: of the lane.
        step_tokens: most prompt tokens of a step.
        fuser: knows what questions that were run ahead look at; None where no prompt is fused.
    """

    def __init__(
        self, report: StepReport, clock: Clock, step_tokens: int, fuser: Fuser | None
    ) -> None:
        self._report = report
        self._clock = clock
        self._step_tokens = step_tokens
        self._fuser = fuser

    def scores(self, sequence: Sequence) -> ScoredAhead:
        """Return what a prompt's question, run ahead of it, looks at, and how long that took."""
        assert self._fuser is not None, "a prompt is fused without a fuser"
        started_s = self._clock.now_s()
        ahead = self._fuser.scores_ahead(sequence)
        return replace(ahead, seconds=self._clock.now_s() - started_s)

    def ratio(self, sequence: Sequence, prompt: FusedPrompt) -> RatioChoice:
        """Return a prompt's ratio: its answer, however long, should meet the deadline."""
        left_s = sequence.deadline_s - self._clock.now_s()
        costs = self._report.costs
        if sequence.decode is not None:
            context = float(prompt.layout.tokens)
            one = {"call": 1.0, "decode_tokens": 1.0, "context_tokens": context}
            left_s -= sequence.decode.sampling.max_tokens * costs.predict_s(one)
        return chosen_ratio(prompt, left_s, costs, self._step_tokens)
