"""What an engine computes while no query wants a step: chunks' KV to store, questions to ask."""

from collections.abc import Callable
from typing import Final

from heddle.core.errors import StorageError, Unreachable
from heddle.core.payloads import AskPayload, PrimePayload, Segment
from heddle.core.ports import Clock
from heddle.core.results import Asked
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.reuse.primer import Primer, fitting
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.sequence_table import SequenceTable
from heddle.engines.llm.step_prices import StepPrices

ASKINGS_MAX: Final = 64  # questions that wait to be run ahead of their prompts


class Background:
    """Priming, which stores a chunk's KV, and asking, which runs a question before its prompt.

    Each is a sequence that has a seat only while no query has one or wants one. A priming answers
    once its chunk's KV lies on disk, an asking once its queries are kept.

    Args:
        sequences: the engine's.
        report: gets the ends of these tasks.
        prices: of steps; a question is run ahead only if a background step holds it.
        clock: of the lane.
        limits: of the engine's steps.
        step_s: what a step without a query may take [s].
        fuser: keeps what questions look for; None = nothing is run in the background.
        primer: begins primings and stores their KV; there is one where there is a fuser.
        problem: why there is no fuser.
    """

    def __init__(
        self,
        sequences: SequenceTable,
        report: StepReport,
        prices: StepPrices,
        clock: Clock,
        limits: SchedulerLimits,
        step_s: float,
        fuser: Fuser | None,
        primer: Primer | None,
        problem: str,
    ) -> None:
        self._sequences = sequences
        self._report = report
        self._prices = prices
        self._clock = clock
        self._limits = limits
        self._step_s = step_s
        self._fuser = fuser
        self._primer = primer
        self._problem = problem

    @property
    def has_ended(self) -> bool:
        """Whether `receive` has something to report."""
        return self._primer is not None and self._primer.has_ended

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from other threads, whenever `has_ended` has become true."""
        if self._primer is not None:
            self._primer.subscribe(wake)

    def prime(self, task: Task, payload: PrimePayload) -> None:
        """Compute a chunk's KV to be stored, behind as many of its neighbours as fit."""
        limit = self._limits.context_tokens_max
        segments = fitting(payload.segments, limit)
        sequence = self._new(task, payload.cache_salt, segments)
        if self._primer is None:
            self._report.failed(task.task_id, f"nothing is primed: {self._problem}")
        elif sequence.num_prompt_tokens > limit:
            self._report.failed(
                task.task_id,
                f"the chunk and the prompt's prefix have {sequence.num_prompt_tokens} tokens and "
                f"{limit} fit (context_tokens_max)",
                is_input=True,
            )
        else:
            try:
                stored = self._primer.begin(sequence, payload.primed_with, self._clock.now_s())
            except StorageError as error:
                message, is_away = f"nothing is primed: {error}", isinstance(error, Unreachable)
                self._report.failed(task.task_id, message, is_away=is_away)
                return
            if stored is None:
                self._sequences.add(sequence)
            else:
                self._report.done(task.task_id, stored)

    def ask(self, task: Task, payload: AskPayload) -> None:
        """Run a question ahead of its prompt, unless it is known or doesn't pay."""
        is_known = self._fuser is not None and self._fuser.asked.knows(
            payload.cache_salt, payload.token_ids
        )
        problem = "" if is_known else self._asking_problem(payload)
        if problem or is_known:
            self._report.done(task.task_id, Asked(problem))
            return
        sequence = self._new(task, payload.cache_salt, (Segment(payload.token_ids),))
        sequence.purpose, sequence.may_reuse = Asking(), False  # all of its queries are wanted
        self._sequences.add(sequence)

    def keep_queries(self, sequence: Sequence, asking: Asking) -> None:
        """Keep what a question looks for, now that it is computed, and answer its task."""
        assert self._fuser is not None, "a question was run without a fuser"
        question = tuple(sequence.token_ids)
        problem = self._fuser.asked.keep(sequence.salt, question, asking.queries)
        self._report.done(sequence.id, Asked(problem))

    def receive(self) -> None:
        """Answer the primings whose KV lies on disk by now, or can't."""
        if self._primer is None:
            return
        for task_id, primed, problem in self._primer.ended():
            if problem is None:
                self._report.done(task_id, primed)
            else:
                self._report.failed(task_id, problem)

    def cancel(self, task_id: int) -> bool:
        """End a priming whose KV is being written; whether the task was one."""
        was_writing = self._primer is not None and self._primer.cancel(task_id)
        if was_writing:
            self._report.cancelled(task_id)
        return was_writing

    def _new(self, task: Task, salt: str, segments: tuple[Segment, ...]) -> Sequence:
        sequence = self._sequences.new(task, task.task_id, salt, segments)
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        return sequence

    def _asking_problem(self, payload: AskPayload) -> str:
        """Return why a question isn't run ahead of its prompt; "" where that is predicted to pay.

        A question pays if one background step holds it. Such a step starts only while no request
        waits; a request that arrives meanwhile waits for the rest of it, and the question's own
        prompt saves as much time. A longer question could be cut off by its prompt: then other
        requests have waited for nothing.
        """
        if self._fuser is None:
            return f"no question is run ahead: {self._problem}"
        tokens, limits = len(payload.token_ids), self._limits
        if not 0 < tokens <= min(limits.max_num_batched_tokens, limits.context_tokens_max):
            return (
                f"no question of {tokens} tokens is run ahead: one step and the context have to "
                "hold it"
            )
        own_s = self._prices.alone_s(tokens)
        if own_s > self._step_s:
            return (
                f"the question was not run ahead: predicted to take {own_s:.3g} s, and a step in "
                f"the background may take {self._step_s:g} s"
            )
        askings = sum(isinstance(sequence.purpose, Asking) for sequence in self._sequences)
        return "too many questions wait to be run ahead" if askings >= ASKINGS_MAX else ""
