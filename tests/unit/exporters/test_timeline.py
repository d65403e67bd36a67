"""The timeline of a request, out of its receipt."""

import pytest

from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.exporters.timeline import timeline_json
from heddle.runtime.receipt import ReceiptDraft, Span, Speculation

SPANS = [
    Span("retrieve.embedding@0", "retrieve", PrimitiveKind.EMBEDDING, "embed", 0.0, 0.01, 0.1),
    Span("retrieve.searching@0", "retrieve", PrimitiveKind.SEARCHING, "vector", 0.1, 0.1, 0.5),
    Span("other.searching@0", "other", PrimitiveKind.SEARCHING, "vector", 0.1, 0.1, 0.2),
    Span("answer.prefill@0", "answer", PrimitiveKind.PREFILLING, "llm", 0.5, 0.55, 0.7),
    Span("answer.decode@0", "answer", PrimitiveKind.DECODING, "llm", 0.5, 0.55, 0.9),
]
GUESSES = [
    Speculation("answer", 0, 0.8, 0.1, 0.2, is_adopted=True, tokens_prompt=40),
    Speculation("answer", 0, 0.3, 0.05, 0.3, is_adopted=False, tokens_wasted=7),
    Speculation("answer", 1, 0.3, 0.05, 0.3, is_adopted=False),
]


@pytest.fixture(scope="module")
def timeline() -> dict:
    draft = ReceiptDraft(spans=list(SPANS), speculations=list(GUESSES))
    return timeline_json(draft.close(Optimizations.EXACT, 1.0, "exact"))


def test_stages_say_when_they_waited_and_ran(timeline: dict):
    stages = {stage["name"]: stage for stage in timeline["stages"]}
    assert len(stages) == len(SPANS)
    decode = stages["answer.decode@0"]
    assert (decode["ready_s"], decode["sent_s"], decode["done_s"]) == (0.5, 0.55, 0.9)
    assert decode["begun_s"] == 0.7, "it was sent with its prefill, and began when that ended"
    assert [name for name, stage in stages.items() if not stage["is_on_path"]] == [
        "other.searching@0"
    ]


def test_the_path_adds_up_to_the_latency(timeline: dict):
    parts = [one[key] for one in timeline["path"] for key in ("between_s", "waited_s", "ran_s")]
    assert sum(parts) + timeline["rest_s"] == pytest.approx(timeline["latency_s"])


def test_early_prompts_end_when_their_own_is_ready(timeline: dict):
    won, lost, unplaced = timeline["ahead"]
    assert (won["is_adopted"], won["engine"]) == (True, "llm")
    assert (won["start_s"], won["end_s"]) == (pytest.approx(0.3), 0.5)
    assert (lost["is_adopted"], lost["start_s"], lost["tokens_wasted"]) == (
        False,
        pytest.approx(0.2),
        7,
    )
    assert (unplaced["start_s"], unplaced["end_s"]) == (None, None), "its turn had no prompt"
