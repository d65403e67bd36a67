"""How long searches go on without their corpus."""

import pytest

from heddle.core.errors import Unreachable
from heddle.engines.vector.corpus.staleness import RETRY_S, Staleness

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
    assert "as the corpus was 9 s ago: the database can't be reached" in staleness.note
    assert staleness.is_waiting
    clock.time_s = 12.0 + RETRY_S
    assert not staleness.is_waiting
    clock.time_s = 13.5
    with pytest.raises(Unreachable):
        staleness.check(AWAY)
    staleness.seen()
    assert not staleness.note
    assert not staleness.is_waiting


def test_without_a_limit_they_fail_at_once():
    clock = Clock()
    staleness = Staleness(0.0, clock)
    clock.time_s = 0.1
    with pytest.raises(Unreachable):
        staleness.check(AWAY)
