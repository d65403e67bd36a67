"""docs/reference/metrics.md: every metric of GET /metrics."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from heddle.app.observe.server_state import (
    CorpusState,
    EmbeddingState,
    MemoryState,
    ReprimingState,
    ServerState,
)
from heddle.app.observe.tally import Tally
from heddle.runtime.counters import Counters
from heddle.server.metrics import ServerCollector
from tools.reference.tables import table

HEAD = """\
# Metrics

`GET /metrics` of [`heddle serve`](cli.md#heddle-serve), for Prometheus. Labels have few values, all
known when the server has started: no tenant, text or id is one. Some metrics need a corpus, an LLM,
or a vector pool. Every value counts from the start of the server.
"""


def metrics_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from HEAD.splitlines()
    yield ""
    collector = ServerCollector(_server())
    rows = (
        (
            f"`{_name(one)}`",
            one.type,
            ", ".join(f"`{label}`" for label in _labels(one)),
            one.documentation,
        )
        for one in collector.collect()
    )
    yield from table(("metric", "type", "labels", "meaning"), rows)


def _server() -> Any:  # noqa: ANN401 - it has what a collector asks a server for
    state = ServerState(
        engines={},
        lanes={},
        requests=0,
        tally=Tally(),
        counters=Counters(),
        embedding=EmbeddingState(outcomes={}, held=0, lanes={}),
        corpus_revision=0,
        corpus=CorpusState(name=""),
        repriming=ReprimingState(waiting=0, primed=0, failed=0, dropped=0, problem=""),
        memory=MemoryState(
            kv_bytes=0,
            requests_per_s=0.0,
            generations=0.0,
            searches=0.0,
            advised_kv_bytes=0,
            advised_requests_per_s=0.0,
            advice="",
        ),
        traces={},
    )
    return SimpleNamespace(state=lambda: state)


def _name(metric: Metric) -> str:
    """Return the name as a scrape shows it."""
    endings = {CounterMetricFamily: "_total", InfoMetricFamily: "_info"}
    return metric.name + endings.get(type(metric), "")


def _labels(metric: Metric) -> tuple[str, ...]:
    labels = tuple(getattr(metric, "_labelnames", ()))
    return (*labels, "le") if isinstance(metric, HistogramMetricFamily) else labels


def _label(name: str) -> str:
    return f"`{name}`"
