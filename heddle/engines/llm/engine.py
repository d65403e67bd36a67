"""The LLM engine: commands in, one iteration of continuous batching a step, one frame out."""

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.commands import (
    Admit,
    Amend,
    Cancel,
    Command,
    Release,
    Steer,
    Transfer,
)
from heddle.core.errors import ConfigError
from heddle.core.frames import Cancelled, Done, Event, Failed, Frame, Load, Progress
from heddle.core.payloads import DecodePayload, PrefillPayload, Segment
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated, KvHandle, Prefilled
from heddle.core.tasks import Optimizations, Priority, Task
from heddle.costs.linear_fit import LinearFit
from heddle.engines.llm.fuser import Fuser
from heddle.engines.llm.handover import KvExchange, SequenceKv
from heddle.engines.llm.requests import change_segment, refusal
from heddle.engines.llm.scheduler import Scheduler, SchedulerLimits, StepPlan
from heddle.engines.llm.sequence import Decode, Sequence
from heddle.engines.llm.step_batch import StepBatch, StepResult

KINDS = frozenset(
    {
        PrimitiveKind.PREFILLING,
        PrimitiveKind.PARTIAL_PREFILLING,
        PrimitiveKind.FULL_PREFILLING,
        PrimitiveKind.DECODING,
        PrimitiveKind.PARTIAL_DECODING,
    }
)
PREFILL_TOKENS_MIN = 16  # a step always moves prompts by this much, however small its budget


class LlmWorker(Protocol):
    """What touches the device; the simulator injects a cost model instead."""

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step: write the KV of its tokens, draw the tokens that are wanted."""
        ...

    def export_kv(self, slots: NDArray[np.int64]) -> object:
        """Copy the KV of these slots out. Shapes: slots [n] int64."""
        ...

    def load_kv(self, slots: NDArray[np.int64], block: object) -> None:
        """Write a block that `export_kv` of the same model made. Shapes: slots [n] int64."""
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
    """What the engine must know of its model; `prior_s` is the first guess of the cost model."""

    limits: SchedulerLimits
    eos_ids: frozenset[int]
    fingerprint: str
    page_bytes: int
    prior_s: Mapping[str, float]


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
    """

    def __init__(
        self,
        name: str,
        epoch: int,
        worker: LlmWorker,
        spec: LlmSpec,
        decoder: TextDecoder,
        clock: Clock,
        exchange: KvExchange | None = None,
        fuser: Fuser | None = None,
    ) -> None:
        self._name = name
        self._epoch = epoch
        self._worker = worker
        self._spec = spec
        self._decoder = decoder
        self._clock = clock
        self._exchange = exchange
        self._fuser = fuser
        self._scheduler = Scheduler(spec.limits, spec.fingerprint)
        self._costs = LinearFit(name, spec.prior_s)
        self._sequences: dict[int, Sequence] = {}
        self._decoding: dict[int, Sequence] = {}  # by the decode's task id
        self._outputs: dict[int, _Output] = {}
        self._events: list[Event] = []
        self._arrivals = 0
        self._budget_s = math.inf

    @property
    def name(self) -> str:
        """The lane's name."""
        return self._name

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        return KINDS

    @property
    def has_work(self) -> bool:
        """Whether a step would compute something, take in loads or has events to send."""
        has_arrivals = self._fuser is not None and self._fuser.has_arrivals
        return bool(self._events) or has_arrivals or self._scheduler.has_work

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from a loader thread, when chunk KV has arrived from disk."""
        if self._fuser is not None:
            self._fuser.subscribe(wake)

    def close(self) -> None:
        """End the chunk KV store's threads; what it has to write is written first."""
        if self._fuser is not None:
            self._fuser.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by its own cost model [s]."""
        return self._costs.predict_s(self._scheduler.backlog())

    def apply(self, command: Command) -> None:
        """Take a command in; those for unknown or ended tasks are ignored.

        Raises: ConfigError: a Transfer, and no exchange was given to this engine.
        """
        match command:
            case Admit():
                self._admit(command)
            case Amend():
                self._amend(command)
            case Steer():
                self._steer(command)
            case Cancel():
                self._cancel(command.task_id)
            case Release():
                self._release(command.handle)
            case Transfer():
                self._transfer(command)

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Run one iteration: decodes, then prompt chunks that fit the budget, then new prompts."""
        started_s = self._clock.now_s()
        self._receive()
        plan = self._scheduler.plan(self._prefill_tokens_within(min(budget_s, self._budget_s)))
        if plan is not None:
            self._run(plan)
        seconds = self._clock.now_s() - started_s
        features = plan.features if plan is not None else {}
        if plan is not None:
            self._costs.observe(features, seconds)
        events, self._events = tuple(self._events), []
        return Frame(
            lane=self._name,
            epoch=self._epoch,
            seconds=seconds,
            events=events,
            features=features,
            load=self._load(),
            costs=self._costs.snapshot(),
            has_work=self.has_work,
        )

    def export_sequence(self, handle: KvHandle) -> SequenceKv | None:
        """Copy a finished prefill out, for another lane; None if the lease is void."""
        sequence = self._leased(handle)
        if sequence is None or sequence.prefill_open:
            return None
        computed = min(sequence.num_computed_tokens, sequence.num_prompt_tokens)
        return SequenceKv(
            task_id=sequence.id,
            salt=sequence.salt,
            priority=sequence.priority,
            may_reuse=sequence.may_reuse and sequence.num_exact_tokens_max is None,
            segments=tuple(sequence.segments),
            num_computed_tokens=computed,
            fingerprint=self._spec.fingerprint,
            block=self._worker.export_kv(sequence.row.slots(np.arange(computed))),
        )

    def import_sequence(self, incoming: SequenceKv) -> KvHandle:
        """Take over a sequence; its KV is computed anew if another model or no room met it."""
        sequence = self._new_sequence(
            incoming.task_id, incoming.priority, incoming.salt, incoming.segments
        )
        sequence.may_reuse = incoming.may_reuse
        sequence.prefill_open = False
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)
        is_same = incoming.fingerprint == self._spec.fingerprint
        if is_same and self._scheduler.hold_pages(sequence):
            slots = sequence.row.slots(np.arange(incoming.num_computed_tokens))
            self._worker.load_kv(slots, incoming.block)
            sequence.num_computed_tokens = incoming.num_computed_tokens
        return KvHandle(self._name, self._epoch, sequence.id)

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
        else:
            kind = type(payload).__name__
            self._fail(command.task.task_id, f"{self._name} can't carry out a {kind}")

    def _admit_prefill(self, task: Task, payload: PrefillPayload) -> None:
        sequence = self._new_sequence(
            task.task_id, task.identity.priority, payload.cache_salt, payload.segments
        )
        sequence.may_reuse = task.optimizations is not Optimizations.OFF
        if task.optimizations is Optimizations.APPROX:
            sequence.reuse = payload.reuse
        self._sequences[sequence.id] = sequence
        self._scheduler.add(sequence)
        self._reread_prompt(sequence)

    def _admit_decode(self, command: Admit, payload: DecodePayload) -> None:
        task_id = command.task.task_id
        sequence = self._sequences.get(payload.prefill_task)
        problem = refusal(payload.sampling)
        if problem is not None:
            self._fail(task_id, problem, is_input=True)
        elif sequence is None:
            self._fail(
                task_id,
                f"prefill task {payload.prefill_task} is unknown here or its lease is over; "
                "send the prefill again",
            )
        elif sequence.decode is not None:
            self._fail(
                task_id, f"prefill task {sequence.id} is being decoded by {sequence.decode.task_id}"
            )
        else:
            self._start_decode(sequence, Decode(task_id, payload.sampling, command.report_every))

    def _start_decode(self, sequence: Sequence, decode: Decode) -> None:
        if len(sequence.token_ids) > sequence.num_prompt_tokens:  # an earlier decode went on
            self._scheduler.set_tokens(sequence, sequence.token_ids[: sequence.num_prompt_tokens])
        is_in = sequence.fusion is None and sequence.num_remaining_tokens == 0
        if is_in and not sequence.has_pending:
            # The first token needs the logits of the prompt's last one: compute that one again.
            self._scheduler.rewind(sequence, len(sequence.token_ids) - 1)
        sequence.decode = decode
        self._decoding[decode.task_id] = sequence
        self._outputs[decode.task_id] = _Output(self._decoder.stream(decode.sampling.stop), [])
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
        sequence.captures = ()
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
            if self._fuser is not None and not sequence.has_pending:
                self._fuser.begin(sequence, self._clock.now_s())
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
            self._events.append(Cancelled(task_id))
            self._end_decode(sequence)
            return
        sequence = self._sequences.get(task_id)
        if sequence is not None and sequence.prefill_open:
            # A decode that was to ride along can't: it ends with its prefill.
            self._events.append(Cancelled(task_id))
            if sequence.decode is not None:
                self._events.append(Cancelled(sequence.decode.task_id))
            self._forget(sequence)

    def _release(self, handle: KvHandle) -> None:
        sequence = self._leased(handle)
        if sequence is None:
            return
        sequence.released = True
        self._forget_if_over(sequence)

    def _transfer(self, command: Transfer) -> None:
        if self._exchange is None:
            raise ConfigError(f"{self._name} has no KV exchange, so it can't transfer a sequence")
        sequence = self.export_sequence(command.handle)
        if sequence is not None:
            self._exchange.send(command.lane, sequence)

    def _receive(self) -> None:
        if self._fuser is not None:
            for ready in self._fuser.collect():
                self._scheduler.settle(ready)
        if self._exchange is not None:
            for sequence in self._exchange.receive(self._name):
                self.import_sequence(sequence)

    # One step ---------------------------------------------------------------------------------

    def _run(self, plan: StepPlan) -> None:
        try:
            result = self._worker.run(plan.batch)
        except Exception as error:  # whatever the device raised is told to every task of the step
            for part in plan.slices:
                self._fail_sequence(part.sequence, f"{type(error).__name__}: {error}")
            return
        drawn, scores = iter(result.token_ids), iter(result.scores)
        for row, part in enumerate(plan.slices):
            token = next(drawn) if part.samples else None
            row_scores = next(scores) if plan.batch.rows[row].scored else ()
            if row in result.broken_rows:
                self._fail_sequence(part.sequence, "the model gave numbers that are not finite")
                continue
            self._scheduler.commit(part)
            self._advance_fusion(part.sequence, row_scores)
            self._report_prefill(part.sequence)
            if token is not None:
                self._take_token(part.sequence, token)
            else:
                self._forget_if_over(part.sequence)

    def _advance_fusion(self, sequence: Sequence, scores: tuple[NDArray[np.float32], ...]) -> None:
        fusion = sequence.fusion
        if fusion is None:
            return
        if scores:
            fusion.take_scores(scores)
        elif fusion.num_remaining_tokens == 0:
            self._scheduler.end_fusion(sequence)
            self._end_fusion(sequence)

    def _end_fusion(self, sequence: Sequence) -> None:
        """Give back what a sequence holds of the chunk KV store."""
        sequence.fusion = None
        if self._fuser is not None:
            self._fuser.drop(sequence)

    def _keep_chunks(self, sequence: Sequence) -> None:
        """Store the KV of chunks that this prompt has computed, for prompts to come."""
        if self._fuser is None:
            return
        for capture in sequence.captures:
            if capture.stop <= sequence.num_computed_tokens:
                slots = sequence.row.slots(np.arange(capture.start, capture.stop))
                self._fuser.keep(capture.record, slots, self._clock.now_s())

    def _report_prefill(self, sequence: Sequence) -> None:
        is_in = sequence.num_computed_tokens >= sequence.num_prompt_tokens
        if not sequence.prefill_open or sequence.has_pending or not is_in:
            return
        sequence.prefill_open = False
        handle = KvHandle(self._name, self._epoch, sequence.id)
        result = Prefilled(
            handle,
            sequence.num_prompt_tokens,
            sequence.num_reused_tokens,
            sequence.preemptions,
            sequence.fused,
        )
        self._events.append(Done(sequence.id, result))

    def _take_token(self, sequence: Sequence, token: int) -> None:
        decode = sequence.decode
        if decode is None:
            return
        if token in self._spec.eos_ids and not decode.sampling.ignore_eos:
            self._finish(sequence, decode, FinishReason.STOP)
            return
        decode.output_ids.append(token)
        sequence.token_ids.append(token)
        output = self._outputs[decode.task_id]
        text, is_stopped = output.stream.push((token,))
        output.add(text)
        if is_stopped:
            self._finish(sequence, decode, FinishReason.STOP, rest=False)
        elif (
            len(decode.output_ids) >= decode.sampling.max_tokens
            or len(sequence.token_ids) >= self._spec.limits.context_tokens_max
        ):
            self._finish(sequence, decode, FinishReason.LENGTH)
        elif decode.report_every and len(decode.output_ids) % decode.report_every == 0:
            self._report(decode, output)

    def _finish(
        self, sequence: Sequence, decode: Decode, reason: FinishReason, *, rest: bool = True
    ) -> None:
        output = self._outputs[decode.task_id]
        if rest:
            output.add(output.stream.finish())
        if decode.report_every:
            self._report(decode, output)
        generated = Generated(
            "".join(output.parts), tuple(decode.output_ids), reason, sequence.preemptions
        )
        self._events.append(Done(decode.task_id, generated))
        self._end_decode(sequence)

    def _report(self, decode: Decode, output: _Output) -> None:
        tokens = tuple(decode.output_ids[decode.reported :])
        if not tokens and not output.unreported:
            return
        fraction = len(decode.output_ids) / decode.sampling.max_tokens
        self._events.append(
            Progress(decode.task_id, tokens, output.unreported, fraction=min(1.0, fraction))
        )
        decode.reported = len(decode.output_ids)
        output.unreported = ""

    def _prefill_tokens_within(self, budget_s: float) -> int:
        tokens_max = self._spec.limits.max_num_batched_tokens
        if math.isinf(budget_s):
            return tokens_max
        fixed = {**self._scheduler.backlog(), "prefill_tokens": 0.0}
        one_s = self._costs.predict_s({"prefill_tokens": 1.0})
        left_s = budget_s - self._costs.predict_s(fixed)
        tokens = int(left_s / one_s) if one_s > 0 else tokens_max
        return min(max(tokens, PREFILL_TOKENS_MIN), tokens_max)

    # Ends -------------------------------------------------------------------------------------

    def _fail(self, task_id: int, message: str, *, is_input: bool = False) -> None:
        self._events.append(Failed(task_id, message, is_input))

    def _fail_sequence(self, sequence: Sequence, message: str, *, is_input: bool = False) -> None:
        """End everything that hangs on a sequence and drop its KV, which can't be trusted."""
        if sequence.prefill_open:
            self._fail(sequence.id, message, is_input=is_input)
        if sequence.decode is not None:
            self._fail(sequence.decode.task_id, message, is_input=is_input)
        self._forget(sequence)

    def _fail_decode(self, sequence: Sequence, message: str) -> None:
        if sequence.decode is not None:
            self._fail(sequence.decode.task_id, message)
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

    def _forget(self, sequence: Sequence) -> None:
        if sequence.decode is not None:
            self._decoding.pop(sequence.decode.task_id)
            self._outputs.pop(sequence.decode.task_id)
            sequence.decode = None
        self._end_fusion(sequence)
        self._sequences.pop(sequence.id)
        self._scheduler.remove(sequence)

    # Small things -----------------------------------------------------------------------------

    def _new_sequence(
        self, task_id: int, priority: Priority, salt: str, segments: tuple[Segment, ...]
    ) -> Sequence:
        self._arrivals += 1
        return Sequence(
            id=task_id,
            arrival=self._arrivals,
            priority=priority,
            salt=salt,
            segments=list(segments),
            row=self._scheduler.new_row(),
            chain=self._scheduler.new_chain(salt),
        )

    def _leased(self, handle: KvHandle) -> Sequence | None:
        if (handle.lane, handle.epoch) != (self._name, self._epoch):
            return None
        return self._sequences.get(handle.id)

    def _load(self) -> Load:
        ledger = self._scheduler.ledger
        free = (ledger.free_count + ledger.idle_count) * self._spec.page_bytes
        return Load(self._scheduler.running_count, self._scheduler.waiting_count, free)
