"""GET /metrics on a server whose state a test makes up."""

import asyncio

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from heddle import __version__
from heddle.app.observe.server_state import (
    CorpusState,
    EmbeddingLaneState,
    EmbeddingState,
    EngineState,
    MemoryState,
    ReprimingState,
    ServerState,
)
from heddle.app.observe.tally import Outcome, Tally
from heddle.core import gauges
from heddle.core.degradation import DegradationKind
from heddle.core.errors import HeddleError
from heddle.core.frames import Frame, Load
from heddle.core.results import RecallEstimate
from heddle.core.tasks import Optimizations, Priority
from heddle.runtime.counters import Counters
from heddle.runtime.receipt import ReceiptDraft
from heddle.runtime.supervision import LaneHealth, LaneState
from heddle.server.http import create_app
from heddle.server.metrics import ENGINE_COUNTERS, ENGINE_GAUGES, PLAIN_GAUGES
from tests.helpers.scraped import samples

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def tally() -> Tally:
    counted = Tally()
    draft = ReceiptDraft(generated_tokens=5, search_wait_s=0.25)
    draft.degrade(DegradationKind.RETRY, "vector.searching@0 retried after: its lane was lost")
    counted.answered(Priority.NORMAL, draft.close(Optimizations.EXACT, 0.3, "exact"))
    counted.first_tokens[Priority.NORMAL].observe(0.015)
    counted.chunks["alias"] += 2
    for seconds in (0.0005, 0.003, 99.0):
        counted.step(Frame("llm", 1, seconds, ()), 1.0)
    return counted


def frame(engine: str, **values: object) -> Frame:
    return Frame(engine, 1, 0.1, (), **values)


def whole_state() -> ServerState:
    pages = {gauges.KV_PAGES_HELD: 3, gauges.KV_PAGES_CACHED: 4, gauges.KV_PAGES_FREE: 5}
    pages |= {gauges.CHUNK_KV_DISK_BYTES: 900, gauges.CHUNK_KV_HOST_EVICTED: 8}
    pages |= {gauges.CHUNK_KV_UNWRITTEN: 2, gauges.CHUNK_KV_ENTRIES: 9}
    index = {
        gauges.INDEX_REVISION: 41,
        gauges.INDEX_VECTORS: 1_000,
        gauges.POOL_RUNNING: 3,
        gauges.POOL_FREE: 1,
        gauges.POOL_WAITING: 6,
    }
    found = frame(
        "vector",
        load=Load(running=2, waiting=7),
        recall=RecallEstimate(0.97, 0.95, 512),
        notes=("the index could not be rebuilt",),
        gauges=index,
    )
    return ServerState(
        engines={
            "llm": EngineState(
                2, 4, frame("llm", load=Load(3, 1), gauges=pages), 9, {"llm-0": 3, "llm-1": 1}
            ),
            "vector": EngineState(0, 1, found),
            "tools": EngineState(0, 0, None),
        },
        lanes={
            "llm": LaneHealth(LaneState.READY, 3, 2, 77, 0.1),
            "retrieval": LaneHealth(LaneState.LOST, 1, 0, None, 0.1, "killed"),
        },
        requests=6,
        tally=tally(),
        counters=Counters(frames_dropped=1),
        embedding=EmbeddingState(
            {Outcome.ANSWERED: 8, Outcome.BUSY: 3, Outcome.LATE: 1},
            5,
            {"cpu": EmbeddingLaneState(2, 0.007, 0.0003, 1.1, 1.5, 0.0, {"drift": 4})},
        ),
        corpus=CorpusState("town", damaged_chunks=3, scrubbed_chunks=70),
        corpus_revision=42,
        roles={"llm": ("llm",), "search": ("retrieval",)},
        memory=MemoryState(64, 2.0, 2.5, 1.0, 128, 3.0, "start again"),
        repriming=ReprimingState(waiting=3, primed=5, failed=1, dropped=2, problem=""),
        traces={"exported": 11, "dropped": 12},
        leases=5,
    )


class FakeServer:
    def __init__(self, state: ServerState | Exception) -> None:
        self.found = state

    def state(self) -> ServerState:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def scrape(state: ServerState | Exception, accept: str = "") -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(FakeServer(state), {}))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/metrics", headers={"accept": accept})

    return asyncio.run(run())


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, ...], float]:
    response = scrape(whole_state())
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return samples(response.text)


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (("heddle_build_info", __version__), 1),
        (("heddle_requests_in_flight",), 6),
        (("heddle_leases",), 5),
        (("heddle_engine_credits_used", "llm"), 9),
        (("heddle_lane_tasks", "llm-1"), 1),
        (("heddle_corpus_damaged_chunks",), 3),
        (("heddle_corpus_scrubbed_chunks_total",), 70),
        (("heddle_trace_spans_total", "dropped"), 12),
        (("heddle_requests_total", "answered", "normal"), 1),
        (("heddle_requests_total", "busy", "bulk"), 0),
        (("heddle_request_duration_seconds_bucket", "0.16", "normal"), 0),
        (("heddle_request_duration_seconds_bucket", "0.32", "normal"), 1),
        (("heddle_request_duration_seconds_sum", "normal"), 0.3),
        (("heddle_time_to_first_token_seconds_bucket", "0.01", "normal"), 0),
        (("heddle_time_to_first_token_seconds_bucket", "0.02", "normal"), 1),
        (("heddle_generated_tokens_total",), 5),
        (("heddle_pool_wait_seconds_total",), 0.25),
        (("heddle_kv_reuse_lookups_total", "alias"), 2),
        (("heddle_kv_reuse_lookups_total", "miss"), 0),
        (("heddle_degradations_total", "retry"), 1),
        (("heddle_degradations_total", "chunk_kv"), 0),
        (("heddle_engine_step_seconds_bucket", "llm", "0.0005"), 1),
        (("heddle_engine_step_seconds_bucket", "llm", "0.004"), 2),
        (("heddle_engine_step_seconds_bucket", "llm", "+Inf"), 3),
        (("heddle_engine_step_seconds_count", "llm"), 3),
        (("heddle_engine_tasks", "llm", "queued"), 2),
        (("heddle_engine_tasks", "llm", "sent"), 4),
        (("heddle_engine_rows", "llm", "running"), 3),
        (("heddle_engine_rows", "vector", "waiting"), 7),
        (("heddle_engine_notes", "vector"), 1),
        (("heddle_engine_notes", "llm"), 0),
        (("heddle_kv_pages", "llm", "held"), 3),
        (("heddle_kv_pages", "llm", "cached"), 4),
        (("heddle_kv_pages", "llm", "free"), 5),
        (("heddle_kv_reuse_bytes", "llm", "disk"), 900),
        (("heddle_kv_reuse_evicted_total", "llm", "host"), 8),
        (("heddle_kv_reuse_moves_total", "llm", "not_written"), 2),
        (("heddle_kv_reuse_entries", "llm"), 9),
        (("heddle_pool_slots", "vector", "running"), 3),
        (("heddle_pool_slots", "vector", "free"), 1),
        (("heddle_pool_waiting", "vector"), 6),
        (("heddle_index_revision", "vector"), 41),
        (("heddle_index_vectors", "vector"), 1_000),
        (("heddle_corpus_revision",), 42),
        (("heddle_chunks_to_prime",), 3),
        (("heddle_chunks_reprimed_total", "primed"), 5),
        (("heddle_chunks_reprimed_total", "failed"), 1),
        (("heddle_chunks_reprimed_total", "dropped"), 2),
        (("heddle_memory_split_kv_bytes", "present"), 64),
        (("heddle_memory_split_kv_bytes", "advised"), 128),
        (("heddle_memory_split_requests_per_second", "advised"), 3.0),
        (("heddle_request_stages", "generation"), 2.5),
        (("heddle_request_stages", "search"), 1.0),
        (("heddle_search_recall_ratio", "vector"), 0.97),
        (("heddle_search_recall_lower_ratio", "vector"), 0.95),
        (("heddle_search_recall_checks", "vector"), 512),
        (("heddle_lane_up", "llm"), 1),
        (("heddle_lane_up", "retrieval"), 0),
        (("heddle_lane_restarts_total", "llm"), 2),
        (("heddle_embeddings_total", "busy"), 3),
        (("heddle_embeddings_total", "late"), 1),
        (("heddle_embeddings_total", "cancelled"), 0),
        (("heddle_embedding_held",), 5),
        (("heddle_embedding_lane_queries", "cpu"), 2),
        (("heddle_embedding_lane_stretch", "cpu"), 1.5),
        (("heddle_embedding_lane_refits_total", "cpu", "drift"), 4),
        (("heddle_frames_dropped_total",), 1),
    ],
)
def test_each_thing_that_is_known_is_told(
    found: dict[tuple[str, ...], float], sample: tuple[str, ...], value: float
):
    assert found[sample] == value


def test_all_that_engines_may_tell_has_a_metric():
    by_state = (*ENGINE_GAUGES, *ENGINE_COUNTERS)
    told = {gauge for _, states in by_state for gauge in states.values()} | set(PLAIN_GAUGES)
    assert told == {value for name, value in vars(gauges).items() if name.isupper()}


def test_what_a_server_lacks_is_left_out():
    """No corpus, no lanes, no step yet."""
    state = ServerState({"llm": EngineState(0, 0, None)}, {}, 0, Tally(), Counters())
    response = scrape(state)
    assert response.status_code == 200
    found = samples(response.text)
    assert found[("heddle_engine_tasks", "llm", "queued")] == 0
    lacking = ("heddle_embedding", "heddle_corpus", "heddle_chunks_")
    assert not any(name.startswith(lacking) for name, *_ in found)
    assert not any(name.startswith(("heddle_engine_rows", "heddle_lane")) for name, *_ in found)


def test_names_follow_the_conventions_and_labels_are_few():
    """Also what OpenMetrics demands, whose parser is strict."""
    response = scrape(whole_state(), OPEN_METRICS)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(response.text):
        assert family.name.startswith("heddle_")
        assert family.documentation.endswith(".")
        for sample in family.samples:
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    assert labels.keys() == {
        "version", "priority", "outcome", "engine", "lane", "state", "kind", "reason", "le",
    }  # fmt: skip
    assert all(len(values) <= 40 for values in labels.values())


def test_a_server_that_is_closed_says_so():
    response = scrape(HeddleError("the server is closed"))
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the server is closed"
