"""The critical path of hand-made spans, whose parts add up to the request's time."""

import pytest

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.exporters.critical_path import critical_path
from heddle.exporters.stage_times import UNKNOWN, stage_times
from heddle.runtime.receipt import Span


def span(name: str, ready_s: float, sent_s: float, done_s: float, kind=Kind.SEARCHING) -> Span:
    return Span(name, name.split(".")[0], kind, kind.value, ready_s, sent_s, done_s)


def path_of(*spans: Span, latency_s: float, producers=UNKNOWN):
    path = critical_path(stage_times(spans, producers), latency_s)
    total_s = sum(p.between_s + p.waited_s + p.ran_s for p in path.parts) + path.rest_s
    assert total_s == pytest.approx(latency_s)
    return path


def names(path) -> list[str]:
    return [part.stage.span.name for part in path.parts]


def test_a_chain_is_the_path():
    path = path_of(span("a", 0.0, 0.5, 1.0), span("b", 1.0, 1.0, 3.0), latency_s=3.25)
    assert names(path) == ["a", "b"]
    assert [(p.between_s, p.waited_s, p.ran_s) for p in path.parts] == [
        (0.0, 0.5, 0.5),
        (0.0, 0.0, 2.0),
    ]
    assert path.rest_s == 0.25


def test_the_slower_of_two_branches_is_on_it():
    path = path_of(
        span("fast", 0.0, 0.0, 1.0),
        span("slow", 0.0, 0.0, 2.0),
        span("join", 2.0, 2.0, 3.0),
        latency_s=3.0,
    )
    assert names(path) == ["slow", "join"]


def test_a_stage_that_waits_for_its_engine_follows_its_own_input():
    # The join was ready at 1, and its engine was busy with another stage until 2.
    path = path_of(
        span("input", 0.0, 0.0, 1.0),
        span("other", 0.0, 0.0, 2.0),
        span("join", 1.0, 2.0, 3.0),
        latency_s=3.0,
    )
    assert names(path) == ["input", "join"]
    assert path.parts[1].waited_s == 1.0


def test_what_lies_between_two_stages_belongs_to_neither():
    path = path_of(span("a", 0.25, 0.25, 1.0), span("b", 1.5, 1.5, 2.0), latency_s=2.0)
    assert [part.between_s for part in path.parts] == [0.25, 0.5]


def test_a_reader_that_runs_beside_its_list_comes_behind_it():
    spans = (
        span("a.prefilling", 0.0, 0.0, 0.5, Kind.PREFILLING),
        span("b.decoding", 0.5, 0.5, 4.0),
        span("c.embedding", 1.0, 1.0, 4.5),
    )
    producers = {"c.embedding": frozenset({"b.decoding"})}
    path = path_of(*spans, latency_s=4.5, producers=producers)
    assert names(path) == ["a.prefilling", "b.decoding", "c.embedding"]
    assert path.parts[2].ran_s == 0.5


def test_a_request_without_stages_has_only_a_rest():
    path = path_of(latency_s=0.5)
    assert (path.parts, path.rest_s) == ((), 0.5)
