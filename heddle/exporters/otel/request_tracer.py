"""Watches a server's requests, and makes a trace of each that has ended."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.util.types import AttributeValue

from heddle.core.results import Vectors
from heddle.exporters.otel.span_queue import BATCH_S, QUEUE_MAX, SpanQueue
from heddle.exporters.otel.spans import (
    INPUT_TOKENS,
    OPERATION,
    PROVIDER,
    REQUEST_MODEL,
    Models,
    SpanRecord,
    primitive_spans,
    receipt_attributes,
    request_attributes,
)
from heddle.exporters.otel.trace_parent import current_parent
from heddle.runtime.events import Answer, RequestEvent, RequestFailed

NANOS: Final = 1_000_000_000
SCOPE: Final = "heddle"


class RequestTracer:
    """A `RequestObserver` that exports traces with OpenTelemetry.

    The parent of a request's span is the one that its caller has named (`trace_parent.under`); the
    parents below it are given, too, so that no thread's current span comes in between. Spans hold
    numbers, names of models and kinds of errors: no text of a request, and no tenant.

    Args:
        exporter: takes the spans, on a thread of its own.
        models: the names of what the server works with.
        version: of the program.
        queue_max: ended requests that wait for the exporter; more are dropped and counted.
        batch_s: how long requests are gathered before they are exported [s].
    """

    def __init__(
        self,
        exporter: SpanExporter,
        models: Models,
        *,
        version: str = "",
        queue_max: int = QUEUE_MAX,
        batch_s: float = BATCH_S,
    ) -> None:
        self._models = models
        self._queue = SpanQueue(exporter, queue_max=queue_max, batch_s=batch_s)
        named = Resource({SERVICE_NAME: SCOPE, "service.version": version})
        resource = named.merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME counts more
        # The end of the process is the server's to bring about, not the library's.
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer(SCOPE, version)

    @property
    def counts(self) -> Mapping[str, int]:
        """What has become of the spans, by outcome."""
        return self._queue.counts

    def begun(self, workflow: str) -> Callable[[RequestEvent], None]:
        """Note when a request came and who called; return who hears its events."""
        call = _Call.now()

        def heard(event: RequestEvent) -> None:
            if isinstance(event, Answer | RequestFailed):
                self._queue.put(partial(self._trace, workflow, call, time.time_ns(), event))

        return heard

    def embedding_begun(self, model: str) -> Callable[[Future[Vectors]], None]:
        """Note when texts came and who called; return who hears their end."""
        call = _Call.now()

        def ended(answer: Future[Vectors]) -> None:
            self._queue.put(partial(self._trace_embedding, model, call, time.time_ns(), answer))

        return ended

    def close(self) -> None:
        """Export what is left, for some seconds at most."""
        self._queue.shutdown()

    def _trace(
        self,
        workflow: str,
        call: "_Call",
        ended_ns: int,
        end: Answer | RequestFailed,
    ) -> None:
        span = self._start(f"invoke_workflow {workflow}", call, request_attributes(workflow))
        if isinstance(end, Answer):
            span.set_attributes(receipt_attributes(end.receipt))
            above = set_span_in_context(span, Context())
            for record in primitive_spans(end.receipt, self._models):
                self._child(record, above, call.arrived_ns)
        else:
            _fail(span, end.error)
        span.end(ended_ns)

    def _trace_embedding(
        self, model: str, call: "_Call", ended_ns: int, answer: Future[Vectors]
    ) -> None:
        about = {OPERATION: "embeddings", "gen_ai.provider.name": PROVIDER, REQUEST_MODEL: model}
        span = self._start(f"embeddings {model}", call, about)
        try:
            vectors = answer.result()
        except (Exception, CancelledError) as error:
            _fail(span, error)
        else:
            span.set_attribute(INPUT_TOKENS, vectors.tokens)
            span.set_attribute("gen_ai.embeddings.dimension.count", vectors.values.shape[1])
            span.set_attribute("heddle.rows", vectors.rows)
        span.end(ended_ns)

    def _start(self, name: str, call: "_Call", about: Mapping[str, AttributeValue]) -> Span:
        more = {"heddle.request_id": call.request_id} if call.request_id else {}
        return self._tracer.start_span(
            name,
            call.parent,
            SpanKind.SERVER,
            {**about, **more},
            start_time=call.arrived_ns,
        )

    def _child(self, record: SpanRecord, above: Context, arrived_ns: int) -> None:
        span = self._tracer.start_span(
            record.name,
            above,
            SpanKind.INTERNAL,
            record.attributes,
            start_time=arrived_ns + round(record.start_s * NANOS),
        )
        below = set_span_in_context(span, Context())
        for child in record.children:
            self._child(child, below, arrived_ns)
        span.end(arrived_ns + round(record.end_s * NANOS))


@dataclass(frozen=True, slots=True)
class _Call:
    """Who called, and when: as known on the caller's thread."""

    parent: Context
    request_id: str
    arrived_ns: int

    @classmethod
    def now(cls) -> "_Call":
        above = current_parent()
        return cls(above.context, above.request_id(), time.time_ns())


def _fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed; the error's words may quote the request, and stay out."""
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))
