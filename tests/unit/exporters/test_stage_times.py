"""Times of stages: what is counted once, and where."""

import pytest

from heddle.core.primitives import PrimitiveKind as Kind
from heddle.exporters.stage_times import UNKNOWN, Producers, stage_times
from heddle.runtime.receipt import Span


def took(*spans: Span, producers: Producers = UNKNOWN) -> dict[str, tuple[float, float]]:
    times = stage_times(spans, producers)
    return {t.span.name: (t.waited_s, pytest.approx(t.ran_s)) for t in times}


def test_a_decode_begins_when_its_prefill_ends():
    found = took(
        Span("a.decoding@0", "a", Kind.DECODING, "llm", 1.0, 1.0, 4.0),
        Span("a.prefilling@0", "a", Kind.PREFILLING, "llm", 0.5, 1.0, 3.0),
        Span("a.decoding@1", "a", Kind.DECODING, "llm", 5.0, 5.0, 8.0),
        Span("a.prefilling@1", "a", Kind.PREFILLING, "llm", 5.0, 5.0, 7.0),
    )
    assert found == {
        "a.prefilling@0": (0.5, 2.0),
        "a.decoding@0": (0.0, 1.0),
        "a.prefilling@1": (0.0, 2.0),
        "a.decoding@1": (0.0, 1.0),
    }


def test_others_run_from_when_they_are_sent():
    found = took(
        Span("b.decoding@0", "b", Kind.DECODING, "llm", 0.0, 0.0, 2.0),
        Span("a.searching@0", "a", Kind.SEARCHING, "vector", 0.0, 0.0, 3.0),
        Span("a.embedding@0", "a", Kind.EMBEDDING, "embedding", 0.0, 0.0, 1.0),
    )
    assert [name for name in found] == ["a.embedding@0", "b.decoding@0", "a.searching@0"]
    assert found["a.searching@0"] == (0.0, 3.0)
    assert found["b.decoding@0"] == (0.0, 2.0)


LISTED = (
    Span("a.decoding@0", "a", Kind.DECODING, "llm", 0.0, 0.0, 4.0),
    Span("b.embedding@0", "b", Kind.EMBEDDING, "embedding", 1.0, 1.5, 4.5, rows=3),
)


def test_what_takes_a_list_item_by_item_counts_from_the_end_of_the_list():
    producers = {"b.embedding@0": frozenset({"a.decoding@0"})}
    assert took(*LISTED, producers=producers)["b.embedding@0"] == (0.5, 0.5)
    assert took(*LISTED)["b.embedding@0"] == (0.5, 3.0)


def test_its_engine_has_it_before():
    producers = {"b.embedding@0": frozenset({"a.decoding@0", "gone"})}
    listed = stage_times(LISTED, producers)[1]
    assert (listed.held_s, listed.free_s, listed.begun_s) == (1.5, 4.0, 4.0)
