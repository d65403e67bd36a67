"""Traces through the SDK, into its in-memory exporter and into exporters that misbehave."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from heddle.core.errors import DeadlineExceeded
from heddle.core.results import Vectors
from heddle.exporters.otel import span_queue
from heddle.exporters.otel.request_tracer import RequestTracer
from heddle.exporters.otel.trace_parent import TraceParent, under
from heddle.runtime.events import Answer, RequestFailed
from tests.helpers.server_state import eventually
from tests.unit.exporters.otel.test_spans import MODELS, SPANS, receipt

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


def answer() -> Answer:
    return Answer("secret text", (), {}, receipt(*SPANS))


def traced(*events: Answer | RequestFailed, headers: dict[str, str]) -> Sequence[ReadableSpan]:
    exporter = InMemorySpanExporter()
    tracer = RequestTracer(exporter, MODELS, batch_s=0.001)
    for event in events:
        with under(TraceParent.of(headers, lambda: "abc-1")):
            heard = tracer.begun("oneshot")
        heard(event)
    eventually(lambda: tracer.counts["exported"] >= len(events))
    found = exporter.get_finished_spans()
    tracer.close()
    return found


def test_every_span_has_the_parent_that_it_is_given() -> None:
    spans = {span.name: span for span in traced(answer(), headers=HEADERS)}
    request = spans["invoke_workflow oneshot"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == CALLER
    assert request.attributes["heddle.request_id"] == "abc-1"
    assert request.attributes["gen_ai.usage.input_tokens"] == 100
    assert {span.context.trace_id for span in spans.values()} == {request.context.trace_id}
    assert spans["chat smollm2"].parent.span_id == request.context.span_id
    assert spans["decoding"].parent.span_id == spans["chat smollm2"].context.span_id
    took_ns = spans["embeddings minilm"].end_time - spans["embeddings minilm"].start_time
    assert abs(took_ns - 100_000_000) < 1000
    assert request.resource.attributes["service.name"] == "heddle"
    assert "secret" not in "".join(span.to_json() for span in spans.values())


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-zz-1-01"}])
def test_without_a_parent_each_request_begins_a_trace(headers: dict[str, str]) -> None:
    spans = traced(answer(), answer(), headers=headers)
    roots = [span for span in spans if span.parent is None]
    assert len(roots) == 2
    assert len({span.context.trace_id for span in roots}) == 2


def test_a_caller_that_samples_its_trace_out_gets_none() -> None:
    exporter = InMemorySpanExporter()
    tracer = RequestTracer(exporter, MODELS, batch_s=0.001)
    with under(TraceParent.of({"traceparent": f"00-{TRACE}-{CALLER}-00"})):
        tracer.begun("oneshot")(answer())
    tracer.begun("oneshot")(answer())
    tracer.close()
    assert {f"{s.context.trace_id:032x}" for s in exporter.get_finished_spans()} != {TRACE}
    assert tracer.counts["exported"] == len(exporter.get_finished_spans()) == 8


def test_a_failure_is_named_by_its_kind_alone() -> None:
    error = DeadlineExceeded("the question 'secret' took too long")
    [span] = traced(RequestFailed(error), headers=HEADERS)
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "DeadlineExceeded"
    assert "secret" not in span.to_json()


def test_an_embedding_by_itself_has_a_span() -> None:
    exporter = InMemorySpanExporter()
    tracer = RequestTracer(exporter, MODELS, batch_s=0.001)
    done: Future[Vectors] = Future()
    done.set_result(Vectors(np.zeros((2, 384), np.float32), tokens=11))
    tracer.embedding_begun("minilm")(done)
    left: Future[Vectors] = Future()
    left.cancel()
    tracer.embedding_begun("minilm")(left)
    tracer.close()
    spans = exporter.get_finished_spans()
    assert spans[0].name == "embeddings minilm"
    assert spans[0].attributes["gen_ai.embeddings.dimension.count"] == 384
    assert spans[0].attributes["gen_ai.usage.input_tokens"] == 11
    assert spans[1].attributes["error.type"] == "CancelledError"


class Refusing(SpanExporter):
    def __init__(self, answer: SpanExportResult | Exception) -> None:
        self.answer = answer

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("problem", [SpanExportResult.FAILURE, RuntimeError("down")])
def test_an_exporter_that_fails_is_counted_and_touches_no_request(
    problem: SpanExportResult | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    tracer = RequestTracer(Refusing(problem), MODELS, batch_s=0.001)
    for _ in range(2):
        tracer.begun("oneshot")(answer())
    tracer.close()
    assert tracer.counts == {"exported": 0, "failed": 16, "dropped": 0}
    assert len([r for r in caplog.records if "can't be exported" in r.message]) == 1


class Hanging(SpanExporter):
    def __init__(self) -> None:
        self.entered, self.may_go = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        assert self.may_go.wait(60)
        return SpanExportResult.SUCCESS


def test_an_exporter_that_hangs_lets_requests_be_dropped_and_counted() -> None:
    exporter = Hanging()
    tracer = RequestTracer(exporter, MODELS, queue_max=2, batch_s=0.001)
    tracer.begun("oneshot")(answer())
    assert exporter.entered.wait(60)
    for _ in range(5):
        tracer.begun("oneshot")(answer())
    assert tracer.counts["dropped"] == 3
    exporter.may_go.set()
    tracer.close()
    assert tracer.counts == {"exported": 24, "failed": 0, "dropped": 3}


def test_an_end_counts_the_requests_that_an_exporter_hangs_with(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(span_queue, "CLOSE_S", 0.01)
    exporter = Hanging()
    tracer = RequestTracer(exporter, MODELS, batch_s=0.001)
    tracer.begun("oneshot")(answer())
    assert exporter.entered.wait(60)
    tracer.begun("oneshot")(answer())
    tracer.close()
    assert tracer.counts["dropped"] == 2
    assert "the traces of 2 requests are lost" in caplog.text
    exporter.may_go.set()
