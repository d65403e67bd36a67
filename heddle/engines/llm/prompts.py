"""The prompts of requests: read when they come and whenever a part of them changes."""

from dataclasses import replace

from heddle.core.call_order import CallOrder
from heddle.core.commands import Amend
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import PrefillPayload
from heddle.core.ports import Clock
from heddle.core.results import FusedKv, KvHandle, Prefilled
from heddle.core.tasks import Optimizations, Task
from heddle.costs.step_report import StepReport
from heddle.engines.llm.requests import change_segment
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.scheduler import Scheduler
from heddle.engines.llm.sequence import Answering, Guessing, Sequence
from heddle.engines.llm.sequence_table import SequenceTable
from heddle.engines.llm.step_prices import StepPrices


class Prompts:
    """Takes in requests' prompts, and those that may come; answers each once its KV is there.

    Args:
        sequences: the engine's.
        scheduler: gets each prompt's tokens.
        report: gets the ends of prefills.
        prices: of steps: what a prompt will take is part of its rank.
        order: says whose prompt is computed first.
        clock: of the lane.
        fuser: looks for stored KV of a prompt's chunks; None = the engine keeps no chunk KV.
        problem: why there is no fuser.
    """

    def __init__(
        self,
        sequences: SequenceTable,
        scheduler: Scheduler,
        report: StepReport,
        prices: StepPrices,
        order: CallOrder,
        clock: Clock,
        fuser: Fuser | None,
        problem: str,
    ) -> None:
        self._sequences = sequences
        self._scheduler = scheduler
        self._report = report
        self._prices = prices
        self._order = order
        self._clock = clock
        self._fuser = fuser
        self._problem = problem

    def admit(self, task: Task, payload: PrefillPayload) -> None:
        """Take a prompt in; fail it where it is empty or too long."""
        sequence = self._sequences.new(task, task.task_id, payload.cache_salt, payload.segments)
        sequence.may_reuse = task.optimizations is not Optimizations.OFF
        sequence.rank = self._rank(task, sequence)
        sequence.awaits_rider = payload.has_rider
        sequence.purpose = Guessing() if payload.is_speculative else Answering()
        sequence.load_id = payload.load_id
        sequence.deadline_s = self._clock.now_s() + task.seconds_left
        if task.optimizations is Optimizations.APPROX:
            sequence.reuse = payload.reuse
            if self._fuser is None and payload.reuse.is_approximate:
                sequence.fused = self._nothing_reused(payload.reuse)
        self._sequences.add(sequence)
        try:
            self._read(sequence)
        except BaseException:  # the host fails its task, so no command comes to end it
            self._sequences.forget(sequence)
            raise

    def amend(self, command: Amend) -> None:
        """Change a part of a prompt; a decode that has written tokens behind it fails."""
        sequence = self._sequences.get(command.task_id)
        if sequence is None:
            return
        if sequence.decode is not None and sequence.decode.output_ids:
            self._sequences.fail_decode(sequence, "its prompt was amended after its first token")
            if self._sequences.get(sequence.id) is not sequence:
                return  # its lease was over: it has ended with its decode
        problem = change_segment(sequence.segments, command)
        if problem is None:
            self._read(sequence)
        else:
            self._sequences.fail(sequence, problem)

    def answer(self, sequence: Sequence) -> None:
        """Report a prompt that is in, with the lease that a decode continues it by."""
        fused = sequence.fused and replace(
            sequence.fused,
            unprimed=sequence.unprimed,
            loads_used=sequence.loads_used,
            loads_wasted=sequence.loads_wasted,
        )
        result = Prefilled(
            KvHandle(self._report.lane, self._report.epoch, sequence.id),
            sequence.num_prompt_tokens,
            sequence.num_reused_tokens,
            sequence.report_preemptions(),
            fused,
        )
        self._report.done(sequence.id, result)

    def _read(self, sequence: Sequence) -> None:
        """Take over a prompt's segments; refuse a prompt that is empty or too long."""
        self._sequences.end_fusion(sequence)
        sequence.captures, sequence.unprimed, sequence.attention = (), (), None
        prompt = sequence.known_prompt()
        sequence.has_pending = any(segment.is_pending for segment in sequence.segments)
        sequence.num_prompt_tokens = len(prompt)
        problem = self._refusal(sequence, len(prompt))
        if problem:
            self._sequences.fail(sequence, problem, is_input=True)
            return
        self._scheduler.set_tokens(sequence, prompt)
        if sequence.has_pending:
            return
        if self._fuser is not None and sequence.num_remaining_tokens > 0:
            self._look_for_kv(sequence, self._fuser)
        if sequence.fusion is None and sequence.num_remaining_tokens == 0:
            # Nothing new to compute (an empty fill, or a prompt cut short): the last token
            # goes through the model once more, and the prefill ends with that step.
            self._scheduler.kv_cache.rewind(sequence, len(prompt) - 1)
            self._scheduler.settle(sequence)

    def _refusal(self, sequence: Sequence, tokens: int) -> str:
        """Return why a prompt of `tokens` known tokens can't be computed, or nothing."""
        limit = self._scheduler.limits.context_tokens_max
        if tokens > limit:
            return (
                f"the prompt has {tokens} tokens and {limit} fit (context_tokens_max): "
                "retrieve fewer passages (lower topk) or shorten the question"
            )
        return "" if tokens or sequence.has_pending else "the prompt is empty"

    def _look_for_kv(self, sequence: Sequence, fuser: Fuser) -> None:
        """Put a prompt on its way through fusion where KV of its chunks is stored."""
        outlook = self._prices.outlook(
            exact_tokens=max(
                sequence.num_computed_tokens,
                self._scheduler.kv_cache.cached_tokens(sequence, sequence.token_ids),
            ),
            tokens_ahead=self._scheduler.tokens_ahead_of(sequence),
        )
        fuser.begin(sequence, self._clock.now_s(), outlook)
        # What a look into the store has made it forget is freed in the KV cache as well.
        self._scheduler.kv_cache.chunk_pages.keep_only(fuser.knows)
        self._scheduler.settle(sequence)

    def _rank(self, task: Task, sequence: Sequence) -> float:
        """Return a prompt's rank, by what is to be computed of it; its decode is not foreseen."""
        prompt = sequence.known_prompt()
        missing = len(prompt) - self._scheduler.kv_cache.cached_tokens(sequence, prompt)
        own_s = missing * self._prices.prompt_token_s(len(prompt))
        return self._order.rank(task, self._clock.now_s(), own_s)

    def _nothing_reused(self, asked: KvReuse) -> FusedKv:
        problem = f"{asked.policy.value} reused nothing: {self._problem}"
        return FusedKv(ReusePolicy.FULL.value, 1.0, {}, notes=(problem,))
