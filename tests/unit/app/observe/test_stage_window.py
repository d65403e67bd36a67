"""Requests and their stages over the last ten minutes."""

import pytest

from heddle.app.observe.stage_window import ANSWERS_MIN, PART_S, PARTS, StageWindow, stages_of
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.runtime.receipt import Receipt, ReceiptDraft, Span

SPAN_S = PARTS * PART_S


def receipt(generations: int, searches: int) -> Receipt:
    kinds = [PrimitiveKind.DECODING] * generations + [PrimitiveKind.SEARCHING] * searches
    kinds.append(PrimitiveKind.EMBEDDING)
    spans = [Span(str(n), "node", kind, "engine", 0.0, 0.0, 0.1) for n, kind in enumerate(kinds)]
    return ReceiptDraft(spans=spans).close(Optimizations.EXACT, 0.5, "exact")


def test_a_receipt_says_how_many_generations_and_searches_there_were() -> None:
    assert stages_of(receipt(2, 3)) == (2, 3)


def test_the_mix_is_the_mean_over_answered_requests() -> None:
    window = StageWindow(0.0)
    for number in range(ANSWERS_MIN):
        window.answered(receipt(1 + number % 2, 1), 1.0)
    assert window.mix(1.0) == (1.5, 1.0)
    assert window.answers(1.0) == ANSWERS_MIN


def test_a_few_requests_have_no_mix() -> None:
    window = StageWindow(0.0)
    for _ in range(ANSWERS_MIN - 1):
        window.answered(receipt(1, 1), 1.0)
    assert window.mix(1.0) is None


def test_what_is_older_than_ten_minutes_is_forgotten() -> None:
    window = StageWindow(0.0)
    for _ in range(ANSWERS_MIN):
        window.answered(receipt(1, 1), 1.0)
    assert window.mix(SPAN_S - 1) == (1.0, 1.0)
    assert window.mix(SPAN_S + 1) is None
    for _ in range(ANSWERS_MIN):
        window.answered(receipt(3, 0), SPAN_S + 1)
    assert window.mix(SPAN_S + 1) == (3.0, 0.0)


def test_the_window_stays_bounded() -> None:
    """A part that has left it counts no more, at any time that is asked for."""
    window = StageWindow(0.0)
    for number in range(PARTS + 1):
        window.answered(receipt(1, 1), number * PART_S)
    assert window.answers(0.0) == PARTS


@pytest.mark.parametrize(("now_s", "rate_per_s"), [(0.0, 2.0), (30.0, 2.0), (120.0, 0.5)])
def test_the_rate_counts_from_the_start_and_over_half_a_minute_at_least(
    now_s: float, rate_per_s: float
) -> None:
    window = StageWindow(0.0)
    for _ in range(60):
        window.came(0.0)
    assert window.rate_per_s(now_s) == rate_per_s


def test_a_steady_rate_is_found_at_any_time() -> None:
    window = StageWindow(7.0)
    for second in range(7, 2000):
        window.came(second + 0.5)
        if second > 100:
            assert window.rate_per_s(second + 1.0) == pytest.approx(1.0, rel=0.02)
