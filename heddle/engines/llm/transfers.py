"""Prompts' KV on its way to another lane, and from one."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.core.payloads import SequenceKv, TransferPayload
from heddle.core.ports import Clock
from heddle.core.results import KvTransfer
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.llm.scheduler import Scheduler
from heddle.engines.llm.sequence import Sequence
from heddle.engines.llm.sequence_table import SequenceTable


class KvCarrier(Protocol):
    """The worker, as far as transfers need it."""

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


class Transfers:
    """Hands prompts over to other lanes, and takes over those that come with a decode.

    Args:
        worker: copies KV out of its pages and into them.
        sequences: the engine's.
        scheduler: gives pages to what comes in.
        report: gets the ends of transfers.
        clock: of the lane.
        fingerprint: of the model; another model's KV is never used.
    """

    def __init__(
        self,
        worker: KvCarrier,
        sequences: SequenceTable,
        scheduler: Scheduler,
        report: StepReport,
        clock: Clock,
        fingerprint: str,
    ) -> None:
        self._worker = worker
        self._sequences = sequences
        self._scheduler = scheduler
        self._report = report
        self._clock = clock
        self._fingerprint = fingerprint

    def admit(self, task_id: int, payload: TransferPayload) -> None:
        """Hand a prompt over, now or once it is in; fail the task where that can't be done."""
        sequence = self._sequences.to_continue(task_id, payload.prefill_task)
        if sequence is None:
            return
        sequence.transfer = task_id
        if not sequence.prefill_open:
            self.hand_over(sequence)
            self._sequences.settle(sequence)

    def hand_over(self, sequence: Sequence) -> None:
        """Answer a transfer with the KV of a prompt that is in, and end its lease."""
        assert sequence.transfer is not None, f"no transfer asked for sequence {sequence.id}"
        try:
            self._report.done(sequence.transfer, self.export(sequence))
        except Exception as error:  # any error of the device
            message = f"its KV can't be handed over: {type(error).__name__}: {error}"
            self._report.failed(sequence.transfer, message)
        sequence.transfer, sequence.released = None, True

    def export(self, sequence: Sequence) -> SequenceKv:
        """Copy a prompt out, as far as it is computed."""
        started_s = self._clock.now_s()
        computed = min(sequence.num_computed_tokens, sequence.num_prompt_tokens)
        slots = sequence.row.slots(np.arange(computed))
        block = self._worker.pack_kv(slots, sequence.row.rotations(computed))
        return SequenceKv(
            segments=tuple(sequence.segments),
            salt=sequence.salt,
            may_reuse=sequence.may_reuse and sequence.num_exact_tokens_max is None,
            tokens=computed,
            fingerprint=self._fingerprint,
            block=block,
            seconds=self._clock.now_s() - started_s,
        )

    def take_over(self, task: Task, sequence_id: int, incoming: SequenceKv) -> KvTransfer:
        """Take a prompt over for one decode; what of its KV can't be used is computed anew."""
        started_s = self._clock.now_s()
        sequence = self._sequences.new(task, sequence_id, incoming.salt, incoming.segments)
        sequence.may_reuse = incoming.may_reuse
        sequence.prefill_open, sequence.released = False, True
        sequence.token_ids = sequence.known_prompt()
        sequence.num_prompt_tokens = len(sequence.token_ids)
        self._sequences.add(sequence)
        problem = self._load_problem(sequence, incoming)
        if not problem:
            sequence.num_computed_tokens = incoming.tokens
        missing = sequence.num_prompt_tokens - sequence.num_computed_tokens
        if missing and not problem:
            problem = "their pages were taken for other prompts before it was handed over"
        note = f"{missing} prompt tokens were computed anew on {self._report.lane}: {problem}"
        seconds = incoming.seconds + self._clock.now_s() - started_s
        return KvTransfer(incoming.nbytes, seconds, note if missing else "")

    def cancel(self, task_id: int) -> bool:
        """End a transfer that waits for its prompt; whether the task was one."""
        for sequence in self._sequences:
            if sequence.transfer == task_id:
                self._report.cancelled(task_id)
                sequence.transfer = None
                return True
        return False

    def _load_problem(self, sequence: Sequence, incoming: SequenceKv) -> str:
        """Put KV into a sequence's pages; return why that can't be done, or nothing."""
        if incoming.fingerprint != self._fingerprint:
            return "the KV is another model's"
        if not self._scheduler.hold_pages(sequence):
            return "no KV pages were free"
        try:
            self._worker.load_kv(sequence.row.slots(np.arange(incoming.tokens)), incoming.block)
        except Exception as error:  # any error of the device
            return f"{type(error).__name__}: {error}"
        return ""
