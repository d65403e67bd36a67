"""GET /metrics: what a server knows of itself, as Prometheus reads it.

Every label has few values, all known when the server has started: no tenant, text or id is one.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from heddle import __version__
from heddle.app.observe.histogram import Histogram
from heddle.app.observe.server_state import (
    EmbeddingState,
    EngineState,
    MemoryState,
    ReprimingState,
)
from heddle.app.observe.tally import Outcome, Tally
from heddle.app.server import Server
from heddle.core import gauges
from heddle.core.counts import counters
from heddle.core.degradation import DegradationKind
from heddle.core.tasks import Priority
from heddle.kv.chunk_key import HitKind
from heddle.runtime.answer_cache import AnswerCacheState
from heddle.runtime.receipt import LookupOutcome, RequestCounts
from heddle.runtime.supervision import LaneHealth, LaneState


class Name(NamedTuple):
    """A metric's name, without the suffix `_total` of counters, and its help text."""

    name: str
    help: str


ENGINE_GAUGES: Final[tuple[tuple[Name, Mapping[str, str]], ...]] = (
    (
        Name("heddle_kv_pages", "KV pages: held by sequences, cached for reuse, free."),
        {
            "held": gauges.KV_PAGES_HELD,
            "cached": gauges.KV_PAGES_CACHED,
            "free": gauges.KV_PAGES_FREE,
        },
    ),
    (
        Name("heddle_kv_reuse_bytes", "Stored KV of chunks, by tier."),
        {"host": gauges.CHUNK_KV_HOST_BYTES, "disk": gauges.CHUNK_KV_DISK_BYTES},
    ),
    (
        Name("heddle_pool_slots", "Slots of the vector pool."),
        {"running": gauges.POOL_RUNNING, "free": gauges.POOL_FREE},
    ),
)
"""Gauges of the engines' state, by the value of the label `state`."""

ENGINE_COUNTERS: Final[tuple[tuple[Name, Mapping[str, str]], ...]] = (
    (
        Name("heddle_kv_reuse_evicted", "Entries that left a tier since the engine started."),
        {"host": gauges.CHUNK_KV_HOST_EVICTED, "disk": gauges.CHUNK_KV_DISK_EVICTED},
    ),
    (
        Name(
            "heddle_kv_reuse_moves",
            "Entries since the engine started: loaded from disk, not loaded (the file was gone, "
            "torn or foreign), not written (the disk or its queue was full); read ahead of a "
            "prompt and used since, or dropped before any use.",
        ),
        {
            "loaded": gauges.CHUNK_KV_LOADED,
            "not_loaded": gauges.CHUNK_KV_NOT_LOADED,
            "not_written": gauges.CHUNK_KV_UNWRITTEN,
            "ahead_used": gauges.CHUNK_KV_AHEAD_USED,
            "ahead_wasted": gauges.CHUNK_KV_AHEAD_WASTED,
        },
    ),
    (
        Name(
            "heddle_kv_reuse_prompts",
            "Prompts since the engine started that reused chunk KV, and those that could have, but "
            "were computed whole, as reuse was not predicted to pay.",
        ),
        {"fused": gauges.CHUNK_KV_FUSED, "whole": gauges.CHUNK_KV_WHOLE},
    ),
)
"""What engines count from their start, by the value of the label `state`."""

PLAIN_GAUGES: Final[Mapping[str, Name]] = {
    gauges.CHUNK_KV_ENTRIES: Name("heddle_kv_reuse_entries", "Stored KV of chunks."),
    gauges.CHUNK_KV_TOKENS: Name("heddle_kv_reuse_tokens", "Tokens of all stored KV of chunks."),
    gauges.CHUNK_KV_DISK_ONLY: Name(
        "heddle_kv_reuse_disk_only", "Stored KV of chunks that host memory does not hold."
    ),
    gauges.CHUNK_KV_DISK_ONLY_S: Name(
        "heddle_kv_reuse_disk_only_read_seconds",
        "Predicted time to read these from disk, one after the other.",
    ),
    gauges.POOL_WAITING: Name("heddle_pool_waiting", "Searches that wait for a slot of the pool."),
    gauges.INDEX_REVISION: Name("heddle_index_revision", "Corpus revision that the index covers."),
    gauges.INDEX_VECTORS: Name("heddle_index_vectors", "Vectors in the index: one for each chunk."),
}


class ServerCollector(Collector):
    """Turns a server's state into metrics, when it is asked."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, as of one moment."""
        state = self._server.state()
        yield InfoMetricFamily("heddle_build", "Heddle's version.", {"version": __version__})
        yield GaugeMetricFamily(
            "heddle_requests_in_flight", "Requests that have not ended.", state.requests
        )
        yield GaugeMetricFamily(
            "heddle_leases", "Prompts whose KV is kept for a generation.", state.leases
        )
        yield CounterMetricFamily(
            "heddle_frames_dropped",
            "Steps whose report came twice or late.",
            state.counters.frames_dropped,
        )
        yield from _tallied(state.tally)
        yield from _answers(state.answers)
        yield from _engines(state.engines)
        yield from _lanes(state.lanes)
        if state.embedding is not None:
            yield from _embedding(state.embedding)
        if state.corpus_revision is not None:
            yield GaugeMetricFamily(
                "heddle_corpus_revision",
                "Newest revision of the corpus; an index below it has something to follow.",
                state.corpus_revision,
            )
        if state.corpus is not None:
            yield GaugeMetricFamily(
                "heddle_corpus_damaged_chunks",
                "Chunks of the corpus that differ from their checksums, as far as they were read.",
                state.corpus.damaged_chunks,
            )
            yield CounterMetricFamily(
                "heddle_corpus_scrubbed_chunks",
                "Chunks that the background check of the corpus has read.",
                state.corpus.scrubbed_chunks,
            )
        if state.repriming is not None:
            yield from _repriming(state.repriming)
        if state.memory is not None:
            yield from _memory(state.memory)
        if state.traces is not None:
            yield _counter(
                Name(
                    "heddle_trace_spans",
                    "Spans that were exported or refused; requests whose spans were dropped.",
                ),
                "outcome",
                state.traces,
            )


class MetricsPage:
    """The body of GET /metrics, from a registry of its own."""

    def __init__(self, server: Server) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ServerCollector(server))

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return body and media type, in the format that an Accept header asks for; may wait."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type


def request_counters(counts: RequestCounts) -> Iterator[Metric]:
    """Yield what receipts add up to: a metric for each counter."""
    for one in counters(RequestCounts):
        yield CounterMetricFamily(one.metric, one.sentence, getattr(counts, one.name))


def _tallied(tally: Tally) -> Iterator[Metric]:
    """Yield what requests and steps add up to."""
    ended = CounterMetricFamily(
        "heddle_requests", "Requests that have ended.", labels=["priority", "outcome"]
    )
    for priority in Priority:
        for outcome in Outcome:
            ended.add_metric([_label(priority), outcome.value], tally.outcomes[priority, outcome])
    yield ended
    yield _histogram(
        Name("heddle_request_duration_seconds", "From arrival to answer; answered requests."),
        "priority",
        {_label(priority): times for priority, times in tally.durations.items()},
    )
    yield _histogram(
        Name(
            "heddle_time_to_first_token_seconds",
            "From arrival to the first token of a node that may write the answer.",
        ),
        "priority",
        {_label(priority): times for priority, times in tally.first_tokens.items()},
    )
    yield _histogram(
        Name("heddle_engine_step_seconds", "Duration of an engine's steps."), "engine", tally.steps
    )
    yield from request_counters(tally.counts)
    yield _counter(
        Name("heddle_kv_reuse_lookups", "Chunks looked up among the stored KV, by kind of hit."),
        "kind",
        {kind.value: tally.chunks[kind.value] for kind in HitKind},
    )
    yield _counter(
        Name(
            "heddle_degradations",
            "Where requests ran degraded, by kind; the receipts say how.",
        ),
        "kind",
        {kind.value: tally.degradations[kind.value] for kind in DegradationKind},
    )
    yield _counter(
        Name(
            "heddle_answer_cache_lookups",
            "Answered requests that looked for an earlier answer, by what came of it.",
        ),
        "outcome",
        {one.value: tally.answer_lookups[one.value] for one in LookupOutcome},
    )


def _answers(state: AnswerCacheState) -> Iterator[Metric]:
    """Yield what is kept of earlier answers."""
    yield GaugeMetricFamily("heddle_answer_cache_entries", "Answers that are kept.", state.entries)
    yield GaugeMetricFamily(
        "heddle_answer_cache_bytes",
        "About what the kept answers take, with the passages that they rest on.",
        state.nbytes,
    )
    yield _counter(
        Name("heddle_answer_cache_dropped", "Answers that are no longer kept, by reason."),
        "reason",
        state.dropped,
    )


def _engines(engines: Mapping[str, EngineState]) -> Iterator[Metric]:
    """Yield each engine's open work, and the load of its newest frame."""
    tasks = GaugeMetricFamily(
        "heddle_engine_tasks",
        "Primitives that wait for an engine's credits, and tasks that it has.",
        labels=["engine", "state"],
    )
    load = GaugeMetricFamily(
        "heddle_engine_rows",
        "Rows in an engine: sequences, queries or texts.",
        labels=["engine", "state"],
    )
    credits = GaugeMetricFamily(
        "heddle_engine_credits_used", "Rows that an engine was sent.", labels=["engine"]
    )
    of_lanes = GaugeMetricFamily(
        "heddle_lane_tasks",
        "Tasks that a lane has, where an engine spreads them over several.",
        labels=["lane"],
    )
    for name, engine in engines.items():
        tasks.add_metric([name, "queued"], engine.queued)
        tasks.add_metric([name, "sent"], engine.in_flight)
        credits.add_metric([name], engine.credits_used)
        for lane, count in engine.tasks_by_lane.items():
            of_lanes.add_metric([lane], count)
        if engine.last is not None:
            load.add_metric([name, "waiting"], engine.last.load.waiting)
            load.add_metric([name, "running"], engine.last.load.running)
    yield tasks
    yield load
    yield credits
    yield of_lanes
    told = {name: engine.last for name, engine in engines.items() if engine.last is not None}
    yield _gauge(
        Name(
            "heddle_engine_notes",
            "Ways in which an engine runs degraded, such as an index that can't be rebuilt; "
            "/health says them in words.",
        ),
        "engine",
        {name: len(last.notes) for name, last in told.items()},
    )
    recalls = {name: last.recall for name, last in told.items() if last.recall is not None}
    yield _gauge(
        Name("heddle_search_recall_ratio", "Share of the exact hits that checked searches found."),
        "engine",
        {name: recall.recall for name, recall in recalls.items()},
    )
    yield _gauge(
        Name(
            "heddle_search_recall_lower_ratio", "Lower bound of that recall, with 95 % confidence."
        ),
        "engine",
        {name: recall.at_least for name, recall in recalls.items()},
    )
    yield _gauge(
        Name("heddle_search_recall_checks", "Checked searches that the recall is the mean of."),
        "engine",
        {name: recall.checks for name, recall in recalls.items()},
    )
    yield from _told_by_engines({name: last.gauges for name, last in told.items()})


def _told_by_engines(told: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Yield what engines say of their state and have counted, by the names in `core.gauges`."""
    for kind, metrics in (
        (GaugeMetricFamily, ENGINE_GAUGES),
        (CounterMetricFamily, ENGINE_COUNTERS),
    ):
        for (name, help_), states in metrics:
            family = kind(name, help_, labels=["engine", "state"])
            for engine, values in told.items():
                for state, gauge in states.items():
                    if gauge in values:
                        family.add_metric([engine, state], values[gauge])
            yield family
    for gauge, plain in PLAIN_GAUGES.items():
        yield _gauge(plain, "engine", {e: v[gauge] for e, v in told.items() if gauge in v})


def _lanes(lanes: Mapping[str, LaneHealth]) -> Iterator[Metric]:
    yield _gauge(
        Name("heddle_lane_up", "Whether a lane's process is ready."),
        "lane",
        {name: health.state is LaneState.READY for name, health in lanes.items()},
    )
    yield _counter(
        Name("heddle_lane_restarts", "How often a lane's process was started again."),
        "lane",
        {name: health.restarts for name, health in lanes.items()},
    )


def _embedding(state: EmbeddingState) -> Iterator[Metric]:
    yield _counter(
        Name("heddle_embeddings", "Embeddings asked for directly that have ended, or were busy."),
        "outcome",
        {outcome.value: state.outcomes.get(outcome, 0) for outcome in Outcome},
    )
    yield GaugeMetricFamily(
        "heddle_embedding_held", "Embedding tasks that wait for a lane to take them.", state.held
    )
    yield _gauge(
        Name("heddle_embedding_lane_queries", "Queries that an embedding lane holds."),
        "lane",
        {name: lane.queries for name, lane in state.lanes.items()},
    )
    yield _gauge(
        Name(
            "heddle_embedding_lane_stretch",
            "Factor on a lane's predicted finish, learnt from late answers.",
        ),
        "lane",
        {name: lane.stretch for name, lane in state.lanes.items()},
    )
    refits = CounterMetricFamily(
        "heddle_embedding_lane_refits",
        "How often a lane's cost was fitted anew.",
        labels=["lane", "reason"],
    )
    for name, lane in state.lanes.items():
        for reason, count in lane.refits.items():
            refits.add_metric([name, reason], count)
    yield refits


def _repriming(state: ReprimingState) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "heddle_chunks_to_prime",
        "Chunks that requests met without primed KV and that wait to be primed.",
        state.waiting,
    )
    yield _counter(
        Name("heddle_chunks_reprimed", "Outcomes of priming such chunks in the background."),
        "outcome",
        {"primed": state.primed, "failed": state.failed, "dropped": state.dropped},
    )


def _memory(state: MemoryState) -> Iterator[Metric]:
    yield _gauge(
        Name(
            "heddle_memory_split_kv_bytes",
            "KV pages of an LLM lane by the memory profile: as they are, and as they are advised "
            "to be for the requests that come.",
        ),
        "state",
        {"present": state.kv_bytes, "advised": state.advised_kv_bytes},
    )
    yield _gauge(
        Name(
            "heddle_memory_split_requests_per_second",
            "Requests a second that either split is predicted to serve, of those that come.",
        ),
        "state",
        {"present": state.requests_per_s, "advised": state.advised_requests_per_s},
    )
    yield _gauge(
        Name(
            "heddle_request_stages",
            "Generations and searches of a request, on average over ten minutes.",
        ),
        "kind",
        {"generation": state.generations, "search": state.searches},
    )


def _label(priority: Priority) -> str:
    return priority.name.lower()


def _counter(name: Name, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name.name, name.help, labels=[label])
    return _filled(family, values)


def _gauge(name: Name, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name.name, name.help, labels=[label])
    return _filled(family, values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]) -> Metric:
    for of, value in values.items():
        family.add_metric([of], value)
    return family


def _histogram(name: Name, label: str, histograms: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name.name, name.help, labels=[label])
    for of, histogram in histograms.items():
        family.add_metric([of], list(_buckets(histogram)), histogram.total)
    return family


def _buckets(histogram: Histogram) -> Iterable[tuple[str, float]]:
    """Return how many observations don't exceed each bound, and how many there are."""
    bounds = (*map(str, histogram.bounds), "+Inf")
    return zip(bounds, accumulate(histogram.counts), strict=True)
