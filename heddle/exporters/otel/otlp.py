"""The exporter of `--otel`: OTLP over HTTP, as the variables OTEL_EXPORTER_OTLP_* have it."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from heddle.exporters.otel.request_tracer import RequestTracer
from heddle.exporters.otel.spans import Models


def otlp_tracer(models: Models, version: str) -> RequestTracer:
    """Return a tracer that sends to http://localhost:4318, unless the variables name another."""
    return RequestTracer(OTLPSpanExporter(), models, version=version)
