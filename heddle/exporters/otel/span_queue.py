"""From ended requests to the exporter, on a thread of its own: no request waits for a collector."""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

QUEUE_MAX: Final = 1024
BATCH_S: Final = 1.0
BATCH_MAX: Final = 64
CLOSE_S: Final = 5.0

MakeSpans = Callable[[], None]
"""Makes the spans of one request; they end in the queue's processor."""
log = logging.getLogger(__name__)


class SpanOutcome(Enum):
    """What has become of spans, or of requests whose spans were never made."""

    EXPORTED = "exported"
    FAILED = "failed"  # the exporter refused them
    DROPPED = "dropped"  # requests without spans: the queue was full, or the end came


class SpanQueue(SpanProcessor):
    """Makes and exports the spans of requests that have ended.

    Args:
        exporter: takes batches; it may block and raise.
        queue_max: requests that wait; more are dropped and counted.
        batch_s: how long it gathers requests before it exports [s].
    """

    def __init__(
        self, exporter: SpanExporter, *, queue_max: int = QUEUE_MAX, batch_s: float = BATCH_S
    ) -> None:
        self._exporter = exporter
        self._batch_s = batch_s
        self._waiting: queue.Queue[MakeSpans] = queue.Queue(queue_max)
        self._counts: Counter[SpanOutcome] = Counter()
        self._lock = threading.Lock()
        self._made: list[ReadableSpan] = []
        self._closing = threading.Event()
        self._is_failing = False
        self._exported = 0  # requests in the batch that the exporter has now
        # A collector that hangs must not hold the process up.
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there were, by outcome; see SpanOutcome."""
        with self._lock:
            return {outcome.value: self._counts[outcome] for outcome in SpanOutcome}

    def put(self, make: MakeSpans) -> None:
        """Take the spans of a request in; never blocks."""
        try:
            if self._closing.is_set():
                raise queue.Full
            self._waiting.put_nowait(make)
        except queue.Full:
            self._count(SpanOutcome.DROPPED, 1)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a finished span in; on the queue's own thread."""
        self._made.append(span)

    def shutdown(self) -> None:
        """Export what waits, for at most `CLOSE_S`; the rest is dropped and counted."""
        self._closing.set()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            left = self._waiting.qsize() + self._exported
            self._count(SpanOutcome.DROPPED, left)
            log.warning("the traces of %d requests are lost: the exporter hangs", left)
            return
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Do nothing: only `shutdown` waits."""
        return True

    def _run(self) -> None:
        while not (self._closing.is_set() and self._waiting.empty()):
            try:
                makes = [self._waiting.get(timeout=self._batch_s)]
            except queue.Empty:
                continue
            self._closing.wait(self._batch_s)
            while len(makes) < BATCH_MAX and not self._waiting.empty():
                makes.append(self._waiting.get_nowait())
            self._exported = len(makes)
            self._export(makes)
            self._exported = 0

    def _export(self, makes: Sequence[MakeSpans]) -> None:
        for make in makes:
            try:
                make()
            except Exception:
                log.exception("the trace of a request could not be made")
                self._count(SpanOutcome.DROPPED, 1)
        made, self._made = self._made, []
        if not made:
            return  # none was sampled
        try:
            is_taken = self._exporter.export(made) is SpanExportResult.SUCCESS
            problem = "the exporter refuses them"
        except Exception as error:
            is_taken, problem = False, f"{type(error).__name__}: {error}"
        self._count(SpanOutcome.EXPORTED if is_taken else SpanOutcome.FAILED, len(made))
        if not is_taken and not self._is_failing:
            log.warning("traces can't be exported: %s; /metrics counts the lost ones", problem)
        self._is_failing = not is_taken

    def _count(self, outcome: SpanOutcome, count: int) -> None:
        with self._lock:
            self._counts[outcome] += count
