"""A server that counts its requests' stages and advises another split of its memory."""

import logging
import math

import pytest

from heddle.app.observe.memory_watch import REVIEW_S, MemoryWatch
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.costs.memory_replan import HOLD_S
from heddle.costs.memory_split import MeasuredCurves, RatePoint, StageMix, split_memory
from heddle.runtime.events import Answer, RequestEvent, TokenDelta
from heddle.runtime.receipt import ReceiptDraft, Span
from tests.helpers.fake_ports import ManualClock

MIB = 1 << 20


def rising_to(most: float) -> tuple[RatePoint, ...]:
    return (RatePoint(most, most), RatePoint(2 * most, most))


CURVES = MeasuredCurves({64 * MIB: rising_to(2.0), 128 * MIB: rising_to(8.0)}, rising_to(4.0))


def answer(generations: int, searches: int) -> Answer:
    kinds = [PrimitiveKind.DECODING] * generations + [PrimitiveKind.SEARCHING] * searches
    spans = [Span(str(n), "node", kind, "engine", 0.0, 0.0, 0.1) for n, kind in enumerate(kinds)]
    receipt = ReceiptDraft(spans=spans).close(Optimizations.EXACT, 0.5, "exact")
    return Answer("Ada", (), {}, receipt)


class Watched:
    """A server that was planned for one generation and four searches a request."""

    def __init__(self, expected_per_s: float = math.inf, mix: tuple[float, float] = (1, 4)) -> None:
        self.clock = ManualClock()
        planned = split_memory(CURVES, StageMix(*mix), expected_per_s, 256 * MIB)
        assert planned.kv_bytes == 64 * MIB
        self.watch = MemoryWatch(CURVES, planned, expected_per_s, self.clock)

    def serve(self, seconds: float, generations: int, searches: int) -> None:
        for _ in range(int(seconds)):
            self.clock.time_s += 1.0
            sink = self.watch.watched(lambda _: None)
            sink(answer(generations, searches))


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the levels and messages of the watch; threads of other tests may log, too."""
    own = [record for record in caplog.records if record.name == MemoryWatch.__module__]
    return [(record.levelname, record.message) for record in own]


def test_events_pass_through() -> None:
    seen: list[RequestEvent] = []
    events = [TokenDelta("answer", "Ada"), answer(1, 1)]
    sink = Watched().watch.watched(seen.append)
    for event in events:
        sink(event)
    assert seen == events


def test_before_requests_came_the_plan_is_shown() -> None:
    state = Watched().watch.state
    assert (state.kv_bytes, state.advised_kv_bytes, state.advice) == (64 * MIB, 64 * MIB, "")
    assert (state.generations, state.searches, state.requests_per_s) == (1, 4, 1.0)


def test_requests_as_planned_bring_no_advice(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.serve(2 * HOLD_S, 1, 4)
    assert watched.watch.state.advice == ""
    assert not logged(caplog)


def test_another_mix_that_lasts_is_advised_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched()
    watched.serve(HOLD_S - REVIEW_S, 4, 1)
    assert watched.watch.state.advice == ""
    assert watched.watch.state.generations == 4.0
    watched.serve(2 * HOLD_S, 4, 1)
    state = watched.watch.state
    assert (state.advised_kv_bytes, state.requests_per_s) == (128 * MIB, 0.5)
    assert state.advised_requests_per_s == 2.0
    assert "128 MiB of KV pages would serve 2.00 requests/s, and 64 MiB serve 0.50" in state.advice
    assert state.advice.endswith("start the server again with --stage-mix 4,1")
    assert logged(caplog) == [("WARNING", state.advice)]


def test_advice_goes_when_the_requests_are_again_as_planned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger=MemoryWatch.__module__)  # others may raise a parent's
    watched = Watched()
    watched.serve(3 * HOLD_S, 4, 1)
    watched.serve(4 * HOLD_S, 1, 4)
    assert watched.watch.state.advice == ""
    assert [level for level, _ in logged(caplog)] == ["WARNING", "INFO"]


def test_a_higher_rate_than_expected_is_advised_with_that_rate() -> None:
    watched = Watched(expected_per_s=0.25, mix=(4, 1))
    watched.serve(3 * HOLD_S, 4, 1)
    assert "--stage-mix 4,1 --expected-rate " in watched.watch.state.advice


def test_what_was_found_before_a_pause_does_not_count() -> None:
    watched = Watched()
    watched.serve(60, 4, 1)
    watched.clock.time_s += 10_000.0
    watched.serve(60, 4, 1)
    assert watched.watch.state.advice == ""
