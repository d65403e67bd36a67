"""The trace obeys the Trace Event Format: fields, units, and events of a thread that nest."""

import json
from collections import defaultdict
from itertools import pairwise

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.exporters.measured_run import MeasuredRun
from heddle.exporters.perfetto import perfetto_trace
from heddle.runtime.receipt import ReceiptDraft, Span
from heddle.runtime.step_log import EngineStep

SPANS = [
    Span("a.embedding@0", "a", Kind.EMBEDDING, "embedding", 0.0, 0.1, 0.7, rows=3),
    Span("a.searching@0", "a", Kind.SEARCHING, "vector", 0.2, 0.2, 0.9),
    Span("b.prefilling@0", "b", Kind.PREFILLING, "llm", 0.9, 1.0, 2.0),
    Span("b.decoding@0", "b", Kind.DECODING, "llm", 1.0, 1.0, 3.0),
]


def run_from(start_s: float) -> MeasuredRun:
    receipt = ReceiptDraft(spans=list(SPANS)).close(Optimizations.EXACT, 3.1, "exact")
    steps = (
        EngineStep("llm", start_s + 1.0, start_s + 2.0, 0.5),
        EngineStep("llm", start_s + 2.0, start_s + 3.0, None),
        EngineStep("vector", start_s + 0.3, start_s + 0.9, None),
    )
    return MeasuredRun(receipt, start_s, steps)


TRACE = perfetto_trace([run_from(50.0), run_from(60.0)], "mine")
EVENTS = TRACE["traceEvents"]
SLICES = [event for event in EVENTS if event["ph"] == "X"]


def named(name: str) -> list[dict]:
    return [event for event in SLICES if event["name"] == name]


def test_it_is_json_with_the_fields_that_the_format_asks_for():
    assert json.loads(json.dumps(TRACE, allow_nan=False)) == TRACE
    assert TRACE["displayTimeUnit"] == "ms"
    for event in EVENTS:
        assert event["ph"] in ("X", "M")
        assert isinstance(event["name"], str)
        assert isinstance(event["args"], dict)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        assert event["ph"] == "M" or event["dur"] >= 0


def test_every_process_and_thread_that_has_events_is_named():
    def names(kind: str) -> set[tuple[int, int]]:
        return {(e["pid"], e["tid"]) for e in EVENTS if e["ph"] == "M" and e["name"] == kind}

    assert {pid for pid, _ in names("process_name")} == {event["pid"] for event in SLICES}
    assert names("thread_name") >= {(event["pid"], event["tid"]) for event in SLICES}


def test_times_are_microseconds_from_the_first_run_s_start():
    first, second = named("b.prefilling@0")
    assert (first["ts"], first["dur"]) == (1_000_000, 1_000_000)
    assert second["ts"] == 11_000_000
    assert named("request")[1]["dur"] == 3_100_000
    assert {event["ts"] for event in named("step")} >= {1_000_000, 300_000, 12_000_000}


def test_a_wait_lies_before_its_stage_and_a_decode_behind_its_prefill():
    wait, stage = named("b.prefilling@0 waits")[0], named("b.prefilling@0")[0]
    assert wait["ts"] + wait["dur"] == stage["ts"]
    decode = named("b.decoding@0")[0]
    assert (decode["ts"], decode["dur"]) == (2_000_000, 1_000_000)
    assert named("b.decoding@0 waits") == []


def test_events_of_one_thread_never_cross():
    threads = defaultdict(list)
    for event in SLICES:
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for reaches in threads.values():
        ordered = sorted(reaches)
        for (_, end), (start, _) in pairwise(ordered):
            assert end <= start


def test_stages_of_a_node_that_run_at_once_have_threads_of_their_own():
    embedding, search = named("a.embedding@0")[0], named("a.searching@0")[0]
    assert embedding["pid"] == search["pid"]
    assert embedding["tid"] != search["tid"]
    assert embedding["args"] == {"engine": "embedding", "kind": "embedding", "rows": 3}


def test_predictions_stand_with_the_steps():
    predictions = [event["args"] for event in named("step")]
    assert predictions.count({"predicted_s": 0.5}) == 2
    assert predictions.count({}) == 4


def test_no_runs_give_an_empty_trace():
    events = perfetto_trace([], "mine")["traceEvents"]
    assert [event["ph"] for event in events] == ["M", "M"]
