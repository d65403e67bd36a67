"""The LLM engine: commands in, one iteration of continuous batching a step, one frame out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

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
from heddle.core.frames import Frame, Load
from heddle.core.gauges import KV_PAGES_CACHED, KV_PAGES_FREE, KV_PAGES_HELD
from heddle.core.payloads import (
    AskPayload,
    DecodePayload,
    PrefillPayload,
    PrimePayload,
    SequenceKv,
    TransferPayload,
)
from heddle.core.ports import Clock
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import KvHandle
from heddle.costs.step_report import StepReport
from heddle.engines.llm.background import Background
from heddle.engines.llm.constrained.constraining import Constraining
from heddle.engines.llm.fusion.asked_questions import Asking
from heddle.engines.llm.generations import Generations, TextDecoder
from heddle.engines.llm.grammar import Grammars
from heddle.engines.llm.prompts import Prompts
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.reuse.primer import Primer
from heddle.engines.llm.scheduler import Scheduler, SchedulerLimits
from heddle.engines.llm.seat_choices import SeatChoices
from heddle.engines.llm.sequence import Answering, Guessing, Priming, Sequence
from heddle.engines.llm.sequence_table import SequenceTable
from heddle.engines.llm.step_batch import StepBatch, StepResult
from heddle.engines.llm.step_plan import Slice, StepPlan
from heddle.engines.llm.step_prices import StepPrices
from heddle.engines.llm.step_sizes import BACKGROUND_STEP_S
from heddle.engines.llm.transfers import KvCarrier, Transfers

KINDS = frozenset(
    {
        PrimitiveKind.PREFILLING,
        PrimitiveKind.DECODING,
        PrimitiveKind.PRIMING,
        PrimitiveKind.ASKING,
    }
)


class LlmWorker(KvCarrier, Protocol):
    """What touches the device; the simulator injects a cost model instead."""

    def run(self, batch: StepBatch) -> StepResult:
        """Compute one step: write the KV of its tokens, draw the tokens that are wanted."""
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


class LlmEngine:
    """A `SteppedEngine` for prefilling and decoding.

    A prefill answers Prefilled with a lease; a decode continues it and answers Generated. A
    sequence's pages are given back once its lease is released and no decode runs on it. Amending
    a prompt after its decode has emitted tokens fails that decode: they can't be taken back.
    A transfer ends the lease and answers with the prompt's KV, which a decode on another engine
    of the same model brings along.

    `sequences` and `scheduler` are there to be looked at, by tests above all.
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
        limits, order, why_no_fuser = spec.limits, spec.order, spec.reuse_problem
        primer = None if fuser is None else Primer(fuser)
        self._worker = worker
        self._spec = spec
        self._clock = clock
        self._fuser = fuser
        self._constraining = Constraining(grammars, spec.constraint_problem)
        self._report = report = StepReport(name, epoch, clock, spec.prior_s)
        # None of these refers to this engine: a cycle would keep the KV of a dropped one.
        choices = SeatChoices(report, clock, limits.max_num_batched_tokens, fuser)
        self.scheduler = scheduler = Scheduler(limits, spec.fingerprint, choices)
        self.sequences = sequences = SequenceTable(scheduler, report, order, clock, fuser, primer)
        self._prices = prices = StepPrices(scheduler, report)
        self._prompts = Prompts(
            sequences, scheduler, report, prices, order, clock, fuser, why_no_fuser
        )
        self._generations = Generations(
            sequences, scheduler, report, decoder, self._constraining, spec.eos_ids
        )
        self._transfers = Transfers(worker, sequences, scheduler, report, clock, spec.fingerprint)
        self._background = Background(
            sequences,
            report,
            prices,
            clock,
            limits,
            spec.background_step_s,
            fuser,
            primer,
            why_no_fuser,
        )
        self._reported: tuple[Mapping[str, float], tuple[str, ...]] = self._pages(), ()
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
        """Whether a step would compute something, take in loads or has something to report."""
        return self._report.has_events or self._has_more or self._state() != self._reported

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from other threads, when chunk KV has come or can't go, or a grammar has."""
        self._constraining.subscribe(wake)
        self._background.subscribe(wake)
        if self._fuser is not None:
            self._fuser.subscribe(wake)

    def close(self) -> None:
        """Finish the chunk KV store's pending writes, then end its threads and the grammars'."""
        self._constraining.close()
        if self._fuser is not None:
            self._fuser.close()

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by its own cost model [s]."""
        return self._prices.next_step_s()

    def apply(self, command: Command) -> None:
        """Take a command in; those for unknown or ended tasks are ignored."""
        match command:
            case Admit():
                self._admit(command)
            case Amend():
                self._prompts.amend(command)
            case Steer():
                self._steer(command)
            case LoadKv():
                if self._fuser is not None:
                    self._fuser.hold(command.load_id, command.prompt, self._prices.outlook())
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
        if not self.scheduler.has_queries:
            budget_s = min(budget_s, self._spec.background_step_s)
        plan = self.scheduler.plan(
            self._prices.prefill_tokens_within(budget_s),
            self._prices.draft_price(self.sequences.decoding),
        )
        if plan is not None:
            self._run(plan)
        self._reported = pages, notes = self._state()
        return self._report.frame(
            plan.features if plan is not None else {},
            self._load(),
            has_computed=plan is not None,
            has_work=self._has_more,
            notes=notes,
            gauges=pages if self._fuser is None else {**pages, **self._fuser.gauges()},
        )

    def export_sequence(self, handle: KvHandle) -> SequenceKv | None:
        """Copy a finished prefill out; None if the lease is void."""
        sequence = self._leased(handle)
        is_in = sequence is not None and not sequence.prefill_open
        return self._transfers.export(sequence) if sequence is not None and is_in else None

    def check(self) -> None:
        """Assert that every page has an owner and every sequence a place."""
        self.scheduler.check(self.sequences)

    # Commands ---------------------------------------------------------------------------------

    def _admit(self, command: Admit) -> None:
        task, payload = command.task, command.task.payload
        match payload:
            case PrefillPayload():
                self._prompts.admit(task, payload)
            case DecodePayload(prompt=None):
                self._generations.admit(command, payload, None)
            case DecodePayload(prompt=SequenceKv() as prompt):
                transfer = self._transfers.take_over(task, payload.prefill_task, prompt)
                self._generations.admit(command, payload, transfer)
            case TransferPayload():
                self._transfers.admit(task.task_id, payload)
            case PrimePayload():
                self._background.prime(task, payload)
            case AskPayload():
                self._background.ask(task, payload)
            case _:
                kind = type(payload).__name__
                self._report.failed(task.task_id, f"{self.name} can't carry out a {kind}")

    def _steer(self, command: Steer) -> None:
        if command.budget_s is not None:
            self._budget_s = command.budget_s
        if command.task_id is None or command.priority is None:
            return
        found = self.sequences.get(command.task_id)
        sequence = found or self.sequences.decoded_by(command.task_id)
        if sequence is not None:
            sequence.priority = command.priority
            self.scheduler.reorder(sequence)

    def _cancel(self, task_id: int) -> None:
        if not self.sequences.cancel(task_id) and not self._transfers.cancel(task_id):
            self._background.cancel(task_id)

    def _release(self, handle: KvHandle) -> None:
        sequence = self._leased(handle)
        if sequence is not None:
            sequence.released = True
            self.sequences.settle(sequence)

    def _leased(self, handle: KvHandle) -> Sequence | None:
        if (handle.lane, handle.epoch) != (self.name, self._report.epoch):
            return None
        return self.sequences.get(handle.id)

    # One step ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Take in what has come from other threads: grammars, loads, ends of writes."""
        for sequence in self._constraining.arrived():
            if self.sequences.get(sequence.id) is sequence:
                self._generations.constrained(sequence)
        if self._fuser is not None:
            for ready in self._fuser.collect(self._clock.now_s()):
                self.scheduler.settle(ready)
        self._background.receive()

    def _run(self, plan: StepPlan) -> None:
        started_s = self._clock.now_s()
        try:
            result = self._worker.run(plan.batch)
        except Exception as error:  # any error of the device: every task of the step fails
            for part in plan.slices:
                self.sequences.fail(part.sequence, f"{type(error).__name__}: {error}")
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
            self.scheduler.commit(part, result.measured.get(row, ()), step_s)
            self._end_prefill(part.sequence)
            if tokens:
                self._generations.take(part, tokens)
            else:
                self.sequences.settle(part.sequence)

    def _take_broken(self, part: Slice) -> None:
        """Fail a slice whose numbers are not finite, or have it computed again without its draft.

        A drafted token may be wrong, and then nothing that follows from it counts.
        """
        if part.draft and part.sequence.decode is not None:
            part.sequence.decode.draft.give_up()
        else:
            self.sequences.fail(part.sequence, "the model gave numbers that are not finite")

    def _end_prefill(self, sequence: Sequence) -> None:
        """Answer a sequence's prompt, if it is whole and its last token has been computed."""
        is_in = sequence.num_computed_tokens >= sequence.num_prompt_tokens
        if not sequence.prefill_open or sequence.has_pending or not is_in:
            return
        sequence.prefill_open = False
        # No decode continues the background; another's lease may be over already.
        sequence.released = sequence.released or sequence.is_background
        match sequence.purpose:
            case Asking() as asking:
                self._background.keep_queries(sequence, asking)
            case Priming():
                pass  # answered once its KV is stored
            case Answering() | Guessing():
                self._prompts.answer(sequence)
                if sequence.transfer is not None:
                    self._transfers.hand_over(sequence)

    # Its state --------------------------------------------------------------------------------

    @property
    def _has_more(self) -> bool:
        """Whether another step would do something, beside reporting what happened."""
        has_loads = self._fuser is not None and self._fuser.has_arrivals
        has_arrivals = has_loads or self._constraining.has_arrivals or self._background.has_ended
        return has_arrivals or self.scheduler.has_work

    def _load(self) -> Load:
        ledger = self.scheduler.kv_cache.ledger
        free = (ledger.free_count + ledger.idle_count) * self._spec.page_bytes
        return Load(self.scheduler.running_count, self.scheduler.waiting_count, free)

    def _state(self) -> tuple[Mapping[str, float], tuple[str, ...]]:
        """Return gauges and notes that a frame carries though no task has an event.

        Pages are freed, for example, when the last lease ends after the last task.
        """
        notes = self._spec.notes if self._fuser is None else self._fuser.notes
        return self._pages(), notes

    def _pages(self) -> Mapping[str, float]:
        ledger = self.scheduler.kv_cache.ledger
        return {
            KV_PAGES_HELD: ledger.held_count,
            KV_PAGES_CACHED: ledger.idle_count,
            KV_PAGES_FREE: ledger.free_count,
        }
