"""The live sequences of an engine: who may continue each, and how each ends."""

from collections.abc import Collection, Iterator

from heddle.core.call_order import CallOrder
from heddle.core.errors import StorageError, Unreachable
from heddle.core.payloads import Segment
from heddle.core.ports import Clock
from heddle.core.tasks import Task
from heddle.costs.step_report import StepReport
from heddle.engines.llm.decode import Decode
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.reuse.primer import Primer
from heddle.engines.llm.scheduler import Scheduler
from heddle.engines.llm.sequence import Priming, Sequence


class SequenceTable:
    """Every sequence from its Admit until neither a task nor a lease wants it.

    A sequence that ends takes what continues it along: its decode, or its transfer to another lane.
    Its pages are given back, and the KV of its chunks is stored where it was computed to the
    end.

    Args:
        scheduler: holds the same sequences, each in its place.
        report: gets the ends of their tasks.
        order: says whose prompt is computed first.
        clock: of the lane.
        fuser: stores the chunks that prompts have computed; None = the engine keeps no chunk KV.
        primer: stores the chunks of priming prompts.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        report: StepReport,
        order: CallOrder,
        clock: Clock,
        fuser: Fuser | None,
        primer: Primer | None,
    ) -> None:
        self._scheduler = scheduler
        self._report = report
        self._order = order
        self._clock = clock
        self._fuser = fuser
        self._primer = primer
        self._by_id: dict[int, Sequence] = {}  # by the task of its prompt
        self._decoding: dict[int, Sequence] = {}  # by the decode's task
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._by_id.values())

    @property
    def decoding(self) -> Collection[Sequence]:
        """The sequences that a decode continues."""
        return self._decoding.values()

    def get(self, task_id: int) -> Sequence | None:
        """Return the sequence whose prompt came with this task."""
        return self._by_id.get(task_id)

    def decoded_by(self, task_id: int) -> Sequence | None:
        """Return the sequence that a decode continues, by the decode's task."""
        return self._decoding.get(task_id)

    def new(
        self, task: Task, sequence_id: int, salt: str, segments: tuple[Segment, ...]
    ) -> Sequence:
        """Return a new sequence, which is not in the table yet."""
        self._arrivals += 1
        return Sequence(
            id=sequence_id,
            arrival=self._arrivals,
            rank=self._order.rank(task, self._clock.now_s(), 0.0),
            priority=task.identity.priority,
            salt=salt,
            segments=list(segments),
            row=self._scheduler.kv_cache.new_row(),
            chain=self._scheduler.kv_cache.new_chain(salt),
        )

    def add(self, sequence: Sequence) -> None:
        """Take a sequence in; its known tokens say whether it wants a seat."""
        self._by_id[sequence.id] = sequence
        self._scheduler.add(sequence)

    def to_continue(self, task_id: int, prefill_task: int) -> Sequence | None:
        """Return the sequence that a task is to continue; fail the task where it can't."""
        sequence = self._by_id.get(prefill_task)
        if sequence is None:
            self._report.failed(
                task_id,
                f"prefill task {prefill_task} is unknown here or its lease is over; "
                "send the prefill again",
            )
            return None
        other = sequence.continued_by
        if other is not None:
            self._report.failed(task_id, f"prefill task {prefill_task} is continued by {other}")
            return None
        sequence.awaits_rider = False
        self._scheduler.settle(sequence)
        return sequence

    def continue_by(self, sequence: Sequence, decode: Decode) -> None:
        """Have a decode continue a sequence; the caller puts the sequence into its place."""
        sequence.decode = decode
        self._decoding[decode.task_id] = sequence

    def settle(self, sequence: Sequence) -> None:
        """Forget a sequence that no task and no lease wants; put any other into its place."""
        if sequence.released and sequence.decode is None and not sequence.prefill_open:
            try:
                self._keep_chunks(sequence)
            finally:
                self.forget(sequence)
        else:
            self._scheduler.settle(sequence)

    def end_decode(self, sequence: Sequence) -> None:
        """Take its decode off a sequence."""
        self._drop_decode(sequence)
        self.settle(sequence)

    def end_fusion(self, sequence: Sequence) -> None:
        """Give back what a sequence holds of the chunk KV store."""
        sequence.fusion = None
        if self._fuser is not None:
            self._fuser.drop(sequence)

    def fail(self, sequence: Sequence, message: str, *, is_input: bool = False) -> None:
        """End a sequence with every task of it, and drop its KV, which can't be trusted."""
        if sequence.prefill_open:
            self._report.failed(sequence.id, message, is_input=is_input)
        if sequence.continued_by is not None:
            self._report.failed(sequence.continued_by, message, is_input=is_input)
        self.forget(sequence)

    def fail_decode(self, sequence: Sequence, message: str, *, is_input: bool = False) -> None:
        """End a sequence's decode, if it has one; its prompt stays."""
        if sequence.decode is not None:
            self._report.failed(sequence.decode.task_id, message, is_input=is_input)
            self.end_decode(sequence)

    def cancel(self, task_id: int) -> bool:
        """End a decode, or a prompt that isn't in yet; whether the task was one of these.

        What was to continue a cancelled prompt ends with it.
        """
        sequence = self._decoding.get(task_id)
        if sequence is not None:
            self._report.cancelled(task_id)
            self.end_decode(sequence)
            return True
        sequence = self._by_id.get(task_id)
        if sequence is None or not sequence.prefill_open:
            return False
        self._report.cancelled(task_id)
        if sequence.continued_by is not None:
            self._report.cancelled(sequence.continued_by)
        self.forget(sequence)
        return True

    def forget(self, sequence: Sequence) -> None:
        """Give back all that a sequence holds; its tasks have been reported."""
        self._drop_decode(sequence)
        self.end_fusion(sequence)
        self._by_id.pop(sequence.id)
        self._scheduler.remove(sequence)

    def _drop_decode(self, sequence: Sequence) -> None:
        if sequence.decode is not None:
            self._decoding.pop(sequence.decode.task_id)
            sequence.decode = None

    def _keep_chunks(self, sequence: Sequence) -> None:
        """Store the KV of the chunks that it has computed; a priming that can't has failed."""
        if isinstance(sequence.purpose, Priming) and self._primer is not None:
            try:
                self._primer.store(sequence, self._clock.now_s())
            except StorageError as error:
                message = f"the chunk's KV is not stored: {error}"
                is_away = isinstance(error, Unreachable)
                self._report.failed(sequence.id, message, is_away=is_away)
        elif self._fuser is not None:
            self._fuser.keep(sequence, self._clock)
