"""What operators see of a running server: JSON lines, traces at their collector, the API page."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.helpers.command import Command
from tests.helpers.server_state import eventually

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUESTION = "Who keeps the lighthouse on Rock 3?"
GREETING = ("serving ", "ask it:", "clients of ")


class Collector(ThreadingHTTPServer):
    """Takes traces in as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []

    def spans_of(self, trace: str) -> dict[str, Span]:
        return {span.name: span for span in self.spans if span.trace_id.hex() == trace}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{running.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        yield running
        running.shutdown()


def test_what_operators_see(
    corpus: Path, start: Callable[..., Command], collector: Collector
) -> None:
    command = start("serve", corpus, "--port", 0, "--log-format", "json", "--verbose", "--otel")
    url = command.until(r"http://[\d.]+:\d+")
    command.until("Ctrl-C")
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-ID": "ops-1"}
    with httpx.Client(base_url=url, timeout=60) as client:
        asked = client.post("/v1/ask", json={"question": QUESTION}, headers=headers)
        assert asked.json()["answer"] == "Clara"
        refused = client.post("/v1/search", json={"query": "Rock", "where": {"a": "b"}})
        assert refused.status_code == 400
        client.post("/v1/embeddings", json={"input": "Rock"}).raise_for_status()
        eventually(lambda: len(collector.spans_of(TRACE)) >= 4)
        eventually(lambda: any(span.name.startswith("embeddings") for span in collector.spans))
        assert client.get("/docs").headers["content-type"].startswith("text/html")
        assert 'heddle_trace_spans_total{outcome="failed"} 0.0' in client.get("/metrics").text

    spans = collector.spans_of(TRACE)
    request = spans["invoke_workflow quote"]
    assert request.parent_span_id.hex() == CALLER
    about = {one.key: one.value for one in request.attributes}
    assert about["heddle.request_id"].string_value == "ops-1"
    children = [span for name, span in spans.items() if name != request.name]
    assert {span.parent_span_id for span in children} == {request.span_id}
    assert {span.name.partition(" ")[0] for span in children} >= {"embeddings", "retrieval"}

    assert command.end(signal.SIGTERM) == 0
    failed = [span for span in collector.spans if span.status.code == 2]
    assert [one.value.string_value for one in failed[0].attributes if one.key == "error.type"] == [
        "InputError"
    ]
    lines = [line for line in command.lines if not line.startswith(GREETING)]
    logged = [json.loads(line) for line in lines]
    [ended] = [line for line in logged if line["message"].startswith("POST /v1/ask: 200")]
    assert ended["request_id"] == "ops-1"
    assert QUESTION not in command.said
