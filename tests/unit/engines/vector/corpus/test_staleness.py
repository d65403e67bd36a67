"""How long searches go on without their corpus."""

import pytest

from heddle.core.errors import Unreachable
from heddle.engines.vector.corpus.staleness import RETRY_S, SLOW_S, Staleness

AWAY = Unreachable("the database can't be reached")


class Clock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s


def test_searches_go_on_for_as_long_as_they_may():
    clock = Clock()
    staleness = Staleness(10.0, clock)
    clock.time_s = 3.0
    staleness.seen()
    assert not staleness.note
    clock.time_s = 12.0
    staleness.check(AWAY)
    assert "was 9 s ago, away for 0 s: the database can't be reached" in staleness.note
    clock.time_s = 21.9
    staleness.check(AWAY)
    assert "was 19 s ago, away for 10 s: the database can't be reached" in staleness.note
    clock.time_s = 22.0
    with pytest.raises(Unreachable):
        staleness.check(AWAY)
    staleness.seen()
    assert not staleness.note
    assert not staleness.is_waiting


def test_a_corpus_that_takes_long_to_fail_is_not_asked_by_each_search():
    clock = Clock()
    staleness = Staleness(60.0, clock)
    staleness.begin()
    clock.time_s = SLOW_S / 2
    staleness.check(AWAY)
    assert not staleness.is_waiting
    staleness.begin()
    clock.time_s = 3.0
    staleness.check(AWAY)
    assert staleness.is_waiting
    staleness.check()
    clock.time_s = 3.0 + RETRY_S
    assert not staleness.is_waiting


def test_without_a_limit_they_fail_at_once():
    clock = Clock()
    staleness = Staleness(0.0, clock)
    clock.time_s = 0.1
    with pytest.raises(Unreachable):
        staleness.check(AWAY)
