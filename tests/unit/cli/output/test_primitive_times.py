"""Times of primitives: what is counted once, and where."""

import pytest

from heddle.cli.output.primitive_times import primitive_times
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.runtime.receipt import ReceiptDraft, Span


def took(*spans: Span) -> dict[str, tuple[float, float]]:
    receipt = ReceiptDraft(spans=list(spans)).close(Optimizations.EXACT, 9.0, "exact")
    return {t.span.name: (t.waited_s, pytest.approx(t.ran_s)) for t in primitive_times(receipt)}


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
