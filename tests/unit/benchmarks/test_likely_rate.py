import pytest

from benchmarks.support.likely_rate import PRECISION, likely_rate
from benchmarks.support.open_loop import Arrival

EVEN = [Arrival(float(i), ()) for i in range(1000)]
FOURS = [Arrival(4.0 * (i // 4), ()) for i in range(1000)]


def test_what_comes_evenly_and_for_long_may_come_as_fast_as_it_is_served():
    rate = likely_rate(EVEN, service_s=0.5, bound_s=5.0, seconds=400.0)
    assert 2.0 / PRECISION <= rate < 2.1


def test_what_comes_bunched_has_to_come_slower():
    even, fours = (likely_rate(coming, 1.0, 4.5, 20.0) for coming in (EVEN, FOURS))
    assert fours < 0.95 * even


def test_a_server_twice_as_fast_takes_twice_as_many():
    slow, fast = (likely_rate(EVEN, s, 10 * s, 200 * s) for s in (1.0, 0.5))
    assert fast == pytest.approx(2 * slow)


def test_where_no_rate_is_in_time_the_server_s_own_is_returned():
    assert likely_rate(EVEN, service_s=2.0, bound_s=1.0, seconds=1000.0) == 0.5
