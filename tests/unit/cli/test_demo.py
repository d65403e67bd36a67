"""The demo's report on its questions."""

import pytest

from heddle.cli.demo import Outcome, _answer_lines, _stages
from heddle.core.primitives import PrimitiveKind as Kind
from heddle.core.tasks import Optimizations
from heddle.demo.corpus import DemoQuestion, QuestionKind
from heddle.runtime.events import Answer
from heddle.runtime.receipt import ReceiptDraft, Span

QUESTION = DemoQuestion("q", "Who?", ("Ada",), (("d", 0),), QuestionKind.SINGLE_HOP, "oneshot")


def outcome(text: str | None, *spans: Span) -> Outcome:
    receipt = ReceiptDraft(spans=list(spans)).close(Optimizations.EXACT, 2.0, "exact")
    answer = None if text is None else Answer(text, (), {}, receipt)
    return Outcome(QUESTION, answer, "it broke", has_gold=False, is_right=False)


def test_an_answer_is_told_in_one_line():
    assert "      It was Ada.  (expected Ada; 2.0 s" in _answer_lines(
        1, 2, outcome("It was\n\nAda.")
    )
    assert "      (nothing)  (" in _answer_lines(1, 2, outcome(""))
    assert _answer_lines(1, 2, outcome(None)) == "[1/2] oneshot: Who?\n      failed: it broke"


def test_the_stages_of_a_request_are_sums_and_of_all_requests_means():
    def search(waited_s: float, ran_s: float) -> Span:
        sent_s = 1 + waited_s
        return Span("s", "s", Kind.SEARCHING, "vector", 1.0, sent_s, sent_s + ran_s)

    two_turns = outcome("x", search(0.5, 1.0), search(0.5, 2.0))
    one_turn = outcome("x", search(0.0, 1.0))
    assert _stages([two_turns, one_turn, outcome(None)]) == [
        ("searching", pytest.approx(0.5), pytest.approx(2.0))
    ]
