"""The LLM engine: commands in, one iteration of continuous batching a step, one frame out."""

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.commands import (
    Admit,
    Amend,
    Cancel,
    Command,
    LeaveKv,
    LoadKv,
    Release,
    Steer,
)
from heddle.core.frames import Frame, Load, Progress
from heddle.core.gauges import KV_PAGES_CACHED, KV_PAGES_FREE, KV_PAGES_HELD
from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.payloads import (
    AskPayload,
    DecodePayload,
    PrefillPayload,
    PrimePayload,
    Segment,
    SequenceKv,
    TransferPayload,
)
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    Asked,
    FinishReason,
    FusedKv,
    Generated,
    KvHandle,
    KvTransfer,
    Prefilled,
)
from heddle.core.tasks import Optimizations, Task
from heddle.costs.prefill import prefill_token_s
from heddle.costs.step_report import StepReport
from heddle.engines.llm.constrained.constraining import Constraining
from heddle.engines.llm.draft import NOTHING_DRAFTED, Draft, DraftPrice
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.fusion.fused_prompt import FusedPrompt, ScoredAhead
from heddle.engines.llm.fusion.ratio_choice import RatioChoice, chosen_ratio
from heddle.engines.llm.grammar import Grammars
from heddle.engines.llm.requests import change_segment, refusal
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.reuse.primer import Primer, fitting
from heddle.engines.llm.scheduler import Scheduler, SchedulerLimits, Slice, StepPlan
from heddle.engines.llm.sequence import Decode, Sequence
from heddle.engines.llm.step_batch import StepBatch, StepResult

KINDS = frozenset(
    {
        PrimitiveKind.PREFILLING,
        PrimitiveKind.DECODING,
        PrimitiveKind.PRIMING,
        PrimitiveKind.ASKING,
    }
)
BACKGROUND_STEP_S = 0.25  # as long as a query waits for a step without any, unless set otherwise
ASKINGS_MAX = 64  # questions that wait to be run ahead of their prompts
PREFILL_TOKENS_MIN = 16  # a step always moves prompts by this much, however small its budget


class LlmWorker(Protocol):
    """What touches the device; the simulator injects a cost model instead."""

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step: write the KV of its tokens, draw the tokens that are wanted."""
        ...

    def pack_kv(
        self, slots: NDArray[np.int64], rotations: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.generic], ...]:
        """Copy the KV of these slots out, its keys rotated by as many tokens.

        Shapes: slots and rotations [n] int64.
        """
        ...

    def load_kv(self, slots: NDArray[np.int64], block: tuple[NDArray[np.generic], ...]) -> None:
        """Write a block that `pack_kv` of the same model made. Shapes: slots [n] int64."""
        ...


class TextStreamLike(Protocol):
    """Turns one generation's tokens into text, holding back what may still change."""

    def push(self, token_ids: Items[int]) -> tuple[str, bool]:
        """Return text that is safe to show, and whether a stop string was met."""
        ...

    def finish(self) -> str:
        """Return the text that was held back."""
        ...


class TextDecoder(Protocol):
    """Makes a text stream for each generation."""

    def stream(self, stop: tuple[str, ...]) -> TextStreamLike:
        """Return a new stream that ends at any of these strings."""
        ...


@dataclass(frozen=True, slots=True)
class LlmSpec:
    """What the engine must know of its model.

    `prior_s` is the first guess of the cost model; `reuse_problem` says why no chunk KV is
    reused, where the engine has no fuser, and `notes` says so where it was meant to have one;
    `constraint_problem` says why no text is constrained, where it has no grammars. A
    step without any query aims to take `background_step_s` at most. `order` says whose prompt is
    computed first.
    """

    limits: SchedulerLimits
    eos_ids: frozenset[int]
    fingerprint: str
    page_bytes: int
    prior_s: Mapping[str, float]
    reuse_problem: str = "this engine keeps no chunk KV"
    constraint_problem: str = "this engine constrains no text"
    notes: tuple[str, ...] = ()
    background_step_s: float = BACKGROUND_STEP_S
    order: CallOrder = SHORTEST_FIRST


@dataclass(slots=True, eq=False)
class _Output:
    """The text side of a decode: what is shown already and what waits for the next Progress."""

    stream: TextStreamLike
    parts: list[str]
    unreported: str = ""

    def add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.unreported += text


class LlmEngine:
    """A `SteppedEngine` for prefilling and decoding.

    A prefill answers Prefilled with a lease; a decode continues it and answers Generated. A
    sequence's pages are given back once its lease is released and no decode runs on it. Amending
    a prompt after its decode has emitted tokens fails that decode: they can't be taken back.
    A transfer ends the lease and answers with the prompt's KV, which a decode on another engine
    of the same model brings along.
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: LlmWorker,
        spec: LlmSpec,
        decoder: TextDecoder,
        clock: Clock,
        fuser: Fuser | None = None,
        grammars: Grammars | None = None,
    ) -> None:
        self._worker = worker
        self._spec = spec
        self._decoder = decoder
        self._clock = clock
        self._fuser = fuser
        self._primer = None if fuser is None else Primer(fuser)
        self._constraining = Constraining(grammars, spec.constraint_problem)
        self._report = StepReport(name, epoch, clock, spec.prior_s)
        # not a method of this engine: a cycle would keep the pool of a dropped one in memory
        ratio_of = partial(_ratio_of, self._report, clock, spec.limits.max_num_batched_tokens)
        scores_of = partial(_scores_of, fuser, clock)
        self._scheduler = Scheduler(spec.limits, spec.fingerprint, ratio_of, scores_of)
        self._sequences: dict[int, Sequence] = {}
        self._decoding: dict[int, Sequence] = {}  # by the decode's task id
        self._outputs: dict[int, _Output] = {}
        self._arrivals = 0
        self._told: tuple[Mapping[str, float], tuple[str, ...]] = self._pages(), ()
        self._budget_s = math.inf

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._report.lane

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return KINDS

    @property
    def reuse_problem(self) -> str:
        """Why no chunk KV is reused; empty where it is."""
        return "" if self._fuser is not None else self._spec.reuse_problem

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something, take in loads or has something to tell."""
        return self._report.has_events or self._has_more or self._news() != self._told

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from other threads, when chunk KV has come or can't go, or a grammar has."""
        self._constraining.subscribe(wake)
        if self._fuser is not None and self._primer is not None:
            self._fuser.subscribe(wake)
            self._primer.subscribe(wake)

    def close(self) -> None:
        """Finish the chunk KV store's pending writes, then end its threads and the grammars'."""
        self._constraining.close()
        if self._fuser is not None:
            self._fuser.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by its own cost model [s]."""
        return self._report.costs.predict_s(self._scheduler.backlog())

    def apply(self, command: Command) -> None:
        """Take a command in; those for unknown or ended tasks are ignored."""
        match command:
            case Admit():
                self._admit(command)
            case Amend():
                self._amend(command)
            case Steer():
                self._steer(command)
            case LoadKv():
                if self._fuser is not None:
                    self._fuser.hold(command.load_id, command.prompt)
            case LeaveKv(load_id=load_id):
                if self._fuser is not None:
                    self._fuser.leave(load_id)
            case Cancel():
                self._cancel(command.task_id)
            case Release():
                self._release(command.handle)

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Run one iteration: decodes, then prompt chunks that fit the budget, then new prompts."""
        self._report.begin()
        self._receive()
        budget_s = min(budget_s, self._budget_s)
        if not self._scheduler.has_queries:
            budget_s = min(budget_s, self._spec.background_step_s)
        plan = self._scheduler.plan(self._prefill_tokens_within(budget_s), self._draft_price())
        if plan is not None:
            self._run(plan)
        frame = self._report.frame(
            plan.features if plan is not None else {},
            self._load(),
            has_computed=plan is not None,
            has_work=self._has_more,
        )
        self._told = self._news()
        return frame._replace(gauges=self._gauges(), notes=self._notes())

    def export_sequence(self, handle: KvHandle) -> SequenceKv | None:
        """Copy a finished prefill out; None if the lease is void."""
        sequence = self._leased(handle)
        return None if sequence is None or sequence.prefill_open else self._export(sequence)

    def check(self) -> None:
        """Assert that every page has an owner and every sequence a place."""
        self._scheduler.check(self._sequences.values())

    # Commands ---------------------------------------------------------------------------------

    def _admit(self, command: Admit) -> None:
        payload = command.task.payload
        if isinstance(payload, PrefillPayload):
            self._admit_prefill(command.task, payload)
        elif isinstance(payload, DecodePayload):
            self._admit_decode(command, payload)
        elif isinstance(payload, TransferPayload):
            self._admit_transfer(command.task, payload)
        elif isinstance(payload, PrimePayload):
            self._admit_priming(command.task, payload)
        elif isinstance(payload, AskPayload):
            self._admit_asking(command.task, payload)
        else:
            kind = type(payload).__name__
            self._report.failed(command.task.task_id, f"{self.name} can't carry out a {kind}")

    def _admit_prefill(self, task: Task, payload: PrefillPayload) -> None:
        sequence = self._new_sequence(task, task.task_id, payload.cache_salt, payload.segments)
        sequence.may_reuse = task.optimizations is not Optimizations.OFF
        sequence.rank = self._rank(task, sequence)
        sequence.awaits_rider = payload.has_rider
        sequence.is_speculative = payload.is_speculative
        sequence.load_id = payload.load_id
        sequence.deadline_s = self._clock.now_s() + task.seconds_left
        if task.optimizations is Optimizations.APPROX:
            sequence.reuse = payload.reuse
            if self._fuser is None and payload.reuse.is_approximate:
                sequence.fused = self._nothing_reused(payload.reuse)
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)
        self._reread_prompt(sequence)

    def _admit_decode(self, command: Admit, payload: DecodePayload) -> None:
        task_id, transfer = command.task.task_id, None
        if payload.prompt is not None:
            transfer = self._import(command.task, payload.prefill_task, payload.prompt)
        sequence = self._continuable(task_id, payload.prefill_task)
        if sequence is None:
            return
        known = 0 if sequence.has_pending else sequence.num_prompt_tokens
        problem = refusal(payload, known) or self._constraining.refusal(payload.sampling)
        if problem is not None:
            self._report.failed(task_id, problem, is_input=True)
            self._forget_if_over(sequence)
        else:
            decode = Decode(task_id, payload.sampling, command.report_every, payload.pause)
            decode.transfer, decode.draft = transfer, Draft(payload.draft)
            self._start_decode(sequence, decode, payload)

    def _admit_transfer(self, task: Task, payload: TransferPayload) -> None:
        sequence = self._continuable(task.task_id, payload.prefill_task)
        if sequence is None:
            return
        sequence.transfer = task.task_id
        if not sequence.prefill_open:
            self._hand_over(sequence)
            self._forget_if_over(sequence)

    def _continuable(self, task_id: int, prefill_task: int) -> Sequence | None:
        """Return the sequence that a task is to continue; fail the task where it can't."""
        sequence = self._sequences.get(prefill_task)
        if sequence is None:
            self._report.failed(
                task_id,
                f"prefill task {prefill_task} is unknown here or its lease is over; "
                "send the prefill again",
            )
            return None
        other = sequence.transfer if sequence.decode is None else sequence.decode.task_id
        if other is not None:
            self._report.failed(task_id, f"prefill task {prefill_task} is continued by {other}")
            return None
        sequence.awaits_rider = False
        self._scheduler.settle(sequence)
        return sequence

    def _hand_over(self, sequence: Sequence) -> None:
        """Answer a transfer with the KV of a prompt that is in, and end its lease."""
        assert sequence.transfer is not None, f"no transfer asked for sequence {sequence.id}"
        try:
            self._report.done(sequence.transfer, self._export(sequence))
        except Exception as error:  # any error of the device
            message = f"its KV can't be handed over: {type(error).__name__}: {error}"
            self._report.failed(sequence.transfer, message)
        sequence.transfer, sequence.released = None, True

    def _export(self, sequence: Sequence) -> SequenceKv:
        started_s = self._clock.now_s()
        computed = min(sequence.num_computed_tokens, sequence.num_prompt_tokens)
        slots = sequence.row.slots(np.arange(computed))
        block = self._worker.pack_kv(slots, sequence.row.rotations(computed))
        return SequenceKv(
            segments=tuple(sequence.segments),
            salt=sequence.salt,
            may_reuse=sequence.may_reuse and sequence.num_exact_tokens_max is None,
            tokens=computed,
            fingerprint=self._spec.fingerprint,
            block=block,
            seconds=self._clock.now_s() - started_s,
        )

    def _import(self, task: Task, sequence_id: int, incoming: SequenceKv) -> KvTransfer:
        """Take over a prompt, for one decode; what of its KV can't be used is computed anew."""
        started_s = self._clock.now_s()
        sequence = self._new_sequence(task, sequence_id, incoming.salt, incoming.segments)
        sequence.may_reuse = incoming.may_reuse
        sequence.prefill_open, sequence.released = False, True
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)
        problem = self._load_problem(sequence, incoming)
        if not problem:
            sequence.num_computed_tokens = incoming.tokens
        missing = sequence.num_prompt_tokens - sequence.num_computed_tokens
        if missing and not problem:
            problem = "their pages were taken for other prompts before it was handed over"
        note = f"{missing} prompt tokens were computed anew on {self.name}: {problem}"
        seconds = incoming.seconds + self._clock.now_s() - started_s
        return KvTransfer(incoming.nbytes, seconds, note if missing else "")

    def _load_problem(self, sequence: Sequence, incoming: SequenceKv) -> str:
        """Put KV into a sequence's pages; return why that can't be done, or nothing."""
        if incoming.fingerprint != self._spec.fingerprint:
            return "the KV is another model's"
        if not self._scheduler.hold_pages(sequence):
            return "no KV pages were free"
        try:
            self._worker.load_kv(sequence.row.slots(np.arange(incoming.tokens)), incoming.block)
        except Exception as error:  # any error of the device
            return f"{type(error).__name__}: {error}"
        return ""

    def _admit_priming(self, task: Task, payload: PrimePayload) -> None:
        limit = self._spec.limits.context_tokens_max
        segments = fitting(payload.segments, limit)
        sequence = self._new_sequence(task, task.task_id, payload.cache_salt, segments)
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        if self._primer is None:
            self._report.failed(task.task_id, f"nothing is primed: {self._spec.reuse_problem}")
        elif sequence.num_prompt_tokens > limit:
            self._report.failed(
                task.task_id,
                f"the chunk and the prompt's prefix have {sequence.num_prompt_tokens} tokens and "
                f"{limit} fit (context_tokens_max)",
                is_input=True,
            )
        else:
            stored = self._primer.begin(sequence, payload.primed_with, self._clock.now_s())
            if stored is not None:
                self._report.done(task.task_id, stored)
                return
            self._sequences[sequence.id] = sequence
            self._scheduler.add(sequence)

    def _admit_asking(self, task: Task, payload: AskPayload) -> None:
        is_known = self._fuser is not None and self._fuser.asked.knows(
            payload.cache_salt, payload.token_ids
        )
        problem = "" if is_known else self._asking_problem(payload)
        if problem or is_known:
            self._report.done(task.task_id, Asked(problem))
            return
        segments = (Segment(payload.token_ids),)
        sequence = self._new_sequence(task, task.task_id, payload.cache_salt, segments)
        sequence.asking, sequence.may_reuse = Asking(), False  # all of its queries are wanted
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)

    def _asking_problem(self, payload: AskPayload) -> str:
        """Return why a question isn't run ahead of its prompt; "" where that is predicted to pay.

        A question pays if one background step holds it. Such a step starts only while no request
        waits; a request that arrives meanwhile waits for the rest of it, and the question's own
        prompt saves as much time. A longer question could be cut off by its prompt: then other
        requests have waited for nothing.
        """
        if self._fuser is None:
            return f"no question is run ahead: {self._spec.reuse_problem}"
        tokens, limits = len(payload.token_ids), self._spec.limits
        if not 0 < tokens <= min(limits.max_num_batched_tokens, limits.context_tokens_max):
            return (
                f"no question of {tokens} tokens is run ahead: one step and the context have to "
                "hold it"
            )
        step = {"call": 1.0, "prefill_tokens": float(tokens), "context_tokens": float(tokens)}
        own_s = self._report.costs.predict_s(step)
        step_s = self._spec.background_step_s
        if own_s > step_s:
            return (
                f"the question was not run ahead: predicted to take {own_s:.3g} s, and a step in "
                f"the background may take {step_s:g} s"
            )
        askings = sum(sequence.asking is not None for sequence in self._sequences.values())
        return "too many questions wait to be run ahead" if askings >= ASKINGS_MAX else ""

    def _start_decode(self, sequence: Sequence, decode: Decode, payload: DecodePayload) -> None:
        if len(sequence.token_ids) > sequence.num_prompt_tokens:  # an earlier decode went on
            self._scheduler.set_tokens(sequence, sequence.token_ids[: sequence.num_prompt_tokens])
        is_in = sequence.fusing is None and sequence.num_remaining_tokens == 0
        if is_in and not sequence.has_pending:
            # The first token needs the logits of the prompt's last one: compute that one again.
            self._scheduler.rewind(sequence, len(sequence.token_ids) - 1)
        sequence.decode = decode
        written = sequence.token_ids[len(sequence.token_ids) - payload.continues :]
        decode.take_over(written, payload.resumes)
        self._constraining.begin(sequence)
        stream = self._decoder.stream(decode.sampling.stop)
        shown, _ = stream.push(decode.output_ids)
        self._decoding[decode.task_id] = sequence
        self._outputs[decode.task_id] = _Output(stream, [shown])
        self._scheduler.settle(sequence)

    def _amend(self, command: Amend) -> None:
        sequence = self._sequences.get(command.task_id)
        if sequence is None:
            return
        if sequence.decode is not None and sequence.decode.output_ids:
            self._fail_decode(sequence, "its prompt was amended after its first token")
        problem = change_segment(sequence.segments, command)
        if problem is not None:
            self._fail_sequence(sequence, problem)
            return
        self._reread_prompt(sequence)

    def _reread_prompt(self, sequence: Sequence) -> None:
        """Take over changed segments; refuse a prompt that is empty or too long."""
        self._end_fusion(sequence)
        sequence.captures, sequence.unprimed, sequence.attention = (), (), None
        prompt = sequence.known_prompt()
        sequence.has_pending = any(segment.is_pending for segment in sequence.segments)
        sequence.num_prompt_tokens = len(prompt)
        limit = self._spec.limits.context_tokens_max
        if len(prompt) > limit:
            self._fail_sequence(
                sequence,
                f"the prompt has {len(prompt)} tokens and {limit} fit (context_tokens_max): "
                "retrieve fewer passages (lower topk) or shorten the question",
                is_input=True,
            )
        elif not prompt and not sequence.has_pending:
            self._fail_sequence(sequence, "the prompt is empty", is_input=True)
        else:
            self._scheduler.set_tokens(sequence, prompt)
            lacks_kv = sequence.num_remaining_tokens > 0 and not sequence.has_pending
            if self._fuser is not None and lacks_kv:
                step_tokens = self._spec.limits.max_num_batched_tokens
                token_s = prefill_token_s(self._report.costs, len(prompt), step_tokens)
                busy_s = token_s * self._scheduler.tokens_ahead_of(sequence)
                self._fuser.begin(sequence, self._clock.now_s(), token_s, busy_s)
                # What a look into the store has made it forget is freed in the pool as well.
                self._scheduler.chunk_pages.keep_only(self._fuser.knows)
                self._scheduler.settle(sequence)
            if (
                sequence.fusion is None
                and sequence.num_remaining_tokens == 0
                and not sequence.has_pending
            ):
                # Nothing new to compute (an empty fill, or a prompt cut short): the last token
                # goes through the model once more, and the prefill ends with that step.
                self._scheduler.rewind(sequence, len(prompt) - 1)
                self._scheduler.settle(sequence)

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        if command.task_id is None or command.priority is None:
            return
        sequence = self._sequences.get(command.task_id) or self._decoding.get(command.task_id)
        if sequence is not None:
            sequence.priority = command.priority
            self._scheduler.reorder(sequence)

    def _cancel(self, task_id: int) -> None:
        sequence = self._decoding.get(task_id)
        if sequence is not None:
            self._report.cancelled(task_id)
            self._end_decode(sequence)
            return
        sequence = self._sequences.get(task_id)
        if sequence is not None and sequence.prefill_open:
            # What was to ride along can't: it ends with its prefill.
            self._report.cancelled(task_id)
            if sequence.decode is not None:
                self._report.cancelled(sequence.decode.task_id)
            if sequence.transfer is not None:
                self._report.cancelled(sequence.transfer)
            self._forget(sequence)
        elif (waiting := self._waits_for_transfer(task_id)) is not None:
            self._report.cancelled(task_id)
            waiting.transfer = None
        elif self._primer is not None and self._primer.cancel(task_id):
            self._report.cancelled(task_id)

    def _release(self, handle: KvHandle) -> None:
        sequence = self._leased(handle)
        if sequence is None:
            return
        sequence.released = True
        self._forget_if_over(sequence)

    def _waits_for_transfer(self, task_id: int) -> Sequence | None:
        """Return the sequence that a transfer waits for."""
        return next((s for s in self._sequences.values() if s.transfer == task_id), None)

    def _receive(self) -> None:
        for sequence in self._constraining.arrived():
            if self._sequences.get(sequence.id) is sequence:
                self._scheduler.settle(sequence)
        if self._fuser is not None:
            for ready in self._fuser.collect(self._clock.now_s()):
                self._scheduler.settle(ready)
        if self._primer is not None:
            for task_id, primed, problem in self._primer.ended():
                if problem is None:
                    self._report.done(task_id, primed)
                else:
                    self._report.failed(task_id, problem)

    # One step ---------------------------------------------------------------------------------

    def _run(self, plan: StepPlan) -> None:
        started_s = self._clock.now_s()
        try:
            result = self._worker.run(plan.batch)
        except Exception as error:  # any error of the device: every task of the step fails
            for part in plan.slices:
                self._fail_sequence(part.sequence, f"{type(error).__name__}: {error}")
            return
        step_s = self._clock.now_s() - started_s
        drawn, probabilities = iter(result.token_ids), iter(result.probabilities)
        for row, part in enumerate(plan.slices):
            tokens = [
                (next(drawn), next(probabilities) if draw.wants_probability else 1.0)
                for draw in plan.batch.rows[row].draws
            ]
            if row in result.broken_rows:
                self._take_broken(part)
                continue
            self._scheduler.commit(part, result.measured.get(row, ()), step_s)
            self._report_prefill(part.sequence)
            if tokens:
                self._take_tokens(part, tokens)
            else:
                self._forget_if_over(part.sequence)

    def _take_broken(self, part: Slice) -> None:
        """Fail a slice whose numbers are not finite, or have it computed again without its draft.

        A drafted token may be wrong, and then nothing that follows from it counts.
        """
        if part.draft and part.sequence.decode is not None:
            part.sequence.decode.draft.give_up()
        else:
            self._fail_sequence(part.sequence, "the model gave numbers that are not finite")

    def _end_fusion(self, sequence: Sequence) -> None:
        """Give back what a sequence holds of the chunk KV store."""
        sequence.fusion = None
        if self._fuser is not None:
            self._fuser.drop(sequence)

    def _report_prefill(self, sequence: Sequence) -> None:
        is_in = sequence.num_computed_tokens >= sequence.num_prompt_tokens
        if not sequence.prefill_open or sequence.has_pending or not is_in:
            return
        sequence.prefill_open = False
        sequence.released = sequence.is_background  # no decode continues it
        if sequence.asking is not None and self._fuser is not None:
            question = tuple(sequence.token_ids)
            queries = sequence.asking.queries
            problem = self._fuser.asked.keep(sequence.salt, question, queries)
            self._report.done(sequence.id, Asked(problem))
            return
        if sequence.primes is not None:
            return  # the primer reports it, once its KV is stored
        handle = KvHandle(self.name, self._report.epoch, sequence.id)
        result = Prefilled(
            handle,
            sequence.num_prompt_tokens,
            sequence.num_reused_tokens,
            sequence.preemptions,
            sequence.fused
            and replace(
                sequence.fused,
                unprimed=sequence.unprimed,
                loads_used=sequence.loads_used,
                loads_wasted=sequence.loads_wasted,
            ),
        )
        self._report.done(sequence.id, result)
        if sequence.transfer is not None:
            self._hand_over(sequence)

    def _take_tokens(self, part: Slice, drawn: Items[tuple[int, float]]) -> None:
        """Take the next token; and the one behind it, as long as the draft has foreseen each."""
        sequence, decode = part.sequence, part.sequence.decode
        if decode is None:
            return
        if decode.problem:
            self._fail_decode(sequence, f"constraint: {decode.problem}", is_input=True)
            return
        decode.draft.offered += len(part.draft)
        for number, (token, probability) in enumerate(drawn):
            self._take_token(sequence, decode, token, probability)
            if sequence.decode is not decode or number == len(part.draft):
                return
            is_right = token == part.draft[number]
            decode.draft.judge(is_right=is_right)
            if not is_right:
                return
            self._scheduler.accept(sequence)

    def _take_token(
        self, sequence: Sequence, decode: Decode, token: int, probability: float
    ) -> None:
        if decode.doubts(probability):
            self._finish(sequence, decode, FinishReason.LOW_CONFIDENCE)
            return
        if token in self._spec.eos_ids and not decode.sampling.ignore_eos:
            self._finish(sequence, decode, FinishReason.STOP)
            return
        decode.write(token)
        sequence.token_ids.append(token)
        output = self._outputs[decode.task_id]
        text, is_stopped = output.stream.push((token,))
        output.add(text)
        if is_stopped:
            self._finish(sequence, decode, FinishReason.STOP, rest=False)
        elif decode.is_over:
            self._finish(sequence, decode, FinishReason.STOP)
        elif (
            len(decode.output_ids) >= decode.sampling.max_tokens
            or len(sequence.token_ids) >= self._spec.limits.context_tokens_max
        ):
            self._finish(sequence, decode, FinishReason.LENGTH)
        elif decode.is_at_interval:
            self._finish(sequence, decode, FinishReason.INTERVAL)
        elif decode.report_every and len(decode.output_ids) % decode.report_every == 0:
            self._report_tokens(decode, output)

    def _finish(
        self, sequence: Sequence, decode: Decode, reason: FinishReason, *, rest: bool = True
    ) -> None:
        output = self._outputs[decode.task_id]
        if rest and not reason.is_pause:
            output.add(output.stream.finish())
        if decode.report_every:
            self._report_tokens(decode, output)
        generated = Generated(
            "".join(output.parts),
            tuple(decode.output_ids),
            reason,
            sequence.preemptions,
            self._spec.limits.context_tokens_max - len(sequence.token_ids),
            decode.transfer,
            drafted=decode.draft.offered,
            accepted=decode.draft.accepted,
        )
        self._report.done(decode.task_id, generated)
        self._end_decode(sequence)

    def _report_tokens(self, decode: Decode, output: _Output) -> None:
        tokens = tuple(decode.output_ids[decode.reported :])
        if not tokens and not output.unreported:
            return
        fraction = len(decode.output_ids) / decode.sampling.max_tokens
        self._report.tell(
            Progress(decode.task_id, tokens, output.unreported, fraction=min(1.0, fraction))
        )
        decode.reported = len(decode.output_ids)
        output.unreported = ""

    def _prefill_tokens_within(self, budget_s: float) -> int:
        tokens_max = self._spec.limits.max_num_batched_tokens
        if math.isinf(budget_s):
            return tokens_max
        fixed = {**self._scheduler.backlog(), "prefill_tokens": 0.0}
        one_s = self._report.costs.predict_s({"prefill_tokens": 1.0})
        left_s = budget_s - self._report.costs.predict_s(fixed)
        tokens = int(left_s / one_s) if one_s > 0 else tokens_max
        return min(max(tokens, PREFILL_TOKENS_MIN), tokens_max)

    def _draft_price(self) -> DraftPrice:
        """Return the price, for all that are in the next step, of checking drafted tokens."""
        if not any(s.decode and s.decode.may_draft for s in self._decoding.values()):
            return NOTHING_DRAFTED
        scheduler, costs = self._scheduler, self._report.costs
        wanted = scheduler.running_count + scheduler.waiting_count
        seated = min(wanted, self._spec.limits.max_num_seqs)
        step = scheduler.backlog()
        step |= {"prefill_tokens": 0.0, "decode_tokens": max(1.0, step["decode_tokens"])}
        step_s = costs.predict_s(step)
        if not step_s:
            return NOTHING_DRAFTED
        row_s, token_s = (
            costs.predict_s({name: 1.0}) for name in ("drafted_rows", "prefill_tokens")
        )
        return DraftPrice(seated * row_s / step_s, seated * token_s / step_s)

    # Ends -------------------------------------------------------------------------------------

    def _fail_sequence(self, sequence: Sequence, message: str, *, is_input: bool = False) -> None:
        """End everything that hangs on a sequence and drop its KV, which can't be trusted."""
        if sequence.prefill_open:
            self._report.failed(sequence.id, message, is_input=is_input)
        if sequence.decode is not None:
            self._report.failed(sequence.decode.task_id, message, is_input=is_input)
        if sequence.transfer is not None:
            self._report.failed(sequence.transfer, message, is_input=is_input)
        self._forget(sequence)

    def _fail_decode(self, sequence: Sequence, message: str, *, is_input: bool = False) -> None:
        if sequence.decode is not None:
            self._report.failed(sequence.decode.task_id, message, is_input=is_input)
            self._end_decode(sequence)

    def _end_decode(self, sequence: Sequence) -> None:
        decode, sequence.decode = sequence.decode, None
        if decode is not None:
            self._decoding.pop(decode.task_id)
            self._outputs.pop(decode.task_id)
        self._forget_if_over(sequence)

    def _forget_if_over(self, sequence: Sequence) -> None:
        if sequence.released and sequence.decode is None and not sequence.prefill_open:
            self._keep_chunks(sequence)
            self._forget(sequence)
        else:
            self._scheduler.settle(sequence)

    def _keep_chunks(self, sequence: Sequence) -> None:
        """Store the KV of the chunks that it has computed."""
        if sequence.primes is not None and self._primer is not None:
            self._primer.store(sequence, self._clock.now_s())
        elif self._fuser is not None:
            self._fuser.keep(sequence, self._clock.now_s())

    def _forget(self, sequence: Sequence) -> None:
        if sequence.decode is not None:
            self._decoding.pop(sequence.decode.task_id)
            self._outputs.pop(sequence.decode.task_id)
            sequence.decode = None
        self._end_fusion(sequence)
        self._sequences.pop(sequence.id)
        self._scheduler.remove(sequence)

    # Small things -----------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        """Whether another step would do something, beside telling what happened."""
        has_arrivals = self._fuser is not None and self._fuser.has_arrivals
        has_written = self._primer is not None and self._primer.has_ended
        has_arrivals = has_arrivals or self._constraining.has_arrivals
        return has_arrivals or has_written or self._scheduler.has_work

    def _nothing_reused(self, asked: KvReuse) -> FusedKv:
        problem = f"{asked.policy.value} reused nothing: {self._spec.reuse_problem}"
        return FusedKv(ReusePolicy.FULL.value, 1.0, {}, fallbacks=(problem,))

    def _rank(self, task: Task, sequence: Sequence) -> float:
        """Return a prompt's rank, by what is to be computed of it; its decode is not foreseen."""
        prompt = sequence.known_prompt()
        missing = len(prompt) - self._scheduler.cached_tokens(sequence, prompt)
        step_tokens = self._spec.limits.max_num_batched_tokens
        token_s = prefill_token_s(self._report.costs, len(prompt), step_tokens)
        return self._spec.order.rank(task, self._clock.now_s(), missing * token_s)

    def _new_sequence(
        self, task: Task, sequence_id: int, salt: str, segments: tuple[Segment, ...]
    ) -> Sequence:
        self._arrivals += 1
        return Sequence(
            id=sequence_id,
            arrival=self._arrivals,
            rank=self._spec.order.rank(task, self._clock.now_s(), 0.0),
            priority=task.identity.priority,
            salt=salt,
            segments=list(segments),
            row=self._scheduler.new_row(),
            chain=self._scheduler.new_chain(salt),
        )

    def _leased(self, handle: KvHandle) -> Sequence | None:
        if (handle.lane, handle.epoch) != (self.name, self._report.epoch):
            return None
        return self._sequences.get(handle.id)

    def _load(self) -> Load:
        ledger = self._scheduler.ledger
        free = (ledger.free_count + ledger.idle_count) * self._spec.page_bytes
        return Load(self._scheduler.running_count, self._scheduler.waiting_count, free)

    def _news(self) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Return gauges and notes that a frame carries though no task has an event.

        Pages are freed, for example, when the last lease ends after the last task.
        """
        return self._pages(), self._notes()

    def _pages(self) -> Mapping[str, float]:
        ledger = self._scheduler.ledger
        return {
            KV_PAGES_HELD: ledger.held_count,
            KV_PAGES_CACHED: ledger.idle_count,
            KV_PAGES_FREE: ledger.free_count,
        }

    def _gauges(self) -> Mapping[str, float]:
        return {**self._pages(), **({} if self._fuser is None else self._fuser.gauges())}

    def _notes(self) -> tuple[str, ...]:
        return self._spec.notes if self._fuser is None else self._fuser.notes


def _scores_of(fuser: Fuser | None, clock: Clock, sequence: Sequence) -> ScoredAhead:
    """Return what a fused prompt's question, run ahead of it, looks at, and what that took."""
    assert fuser is not None, "a prompt is fused without a fuser"
    started_s = clock.now_s()
    ahead = fuser.scores_ahead(sequence)
    return replace(ahead, seconds=clock.now_s() - started_s)


def _ratio_of(
    report: StepReport, clock: Clock, step_tokens: int, sequence: Sequence, prompt: FusedPrompt
) -> RatioChoice:
    """Return a fused prompt's ratio: its answer, however long, should meet the deadline."""
    left_s = sequence.deadline_s - clock.now_s()
    if sequence.decode is not None:
        context = float(prompt.layout.tokens)
        one = {"call": 1.0, "decode_tokens": 1.0, "context_tokens": context}
        left_s -= sequence.decode.sampling.max_tokens * report.costs.predict_s(one)
    return chosen_ratio(prompt, left_s, report.costs, step_tokens)
