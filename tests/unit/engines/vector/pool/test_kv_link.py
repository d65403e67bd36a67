"""How busy the links from prefill to decode were, from what lanes have told."""

from heddle.engines.vector.pool.kv_link import KvLink
from tests.helpers.fake_ports import ManualClock


def test_the_use_is_of_the_time_since_the_last_look():
    clock = ManualClock()
    link = KvLink(2, clock)
    clock.time_s = 1.0
    link.sent(0.3)
    link.sent(0.1)
    assert link.take_use() == 0.2
    clock.time_s = 3.0
    assert link.take_use() == 0.0
    clock.time_s = 4.0
    link.sent(5.0)
    assert link.take_use() == 1.0


def test_where_no_lane_sends_no_link_idles():
    clock = ManualClock()
    link = KvLink(0, clock)
    clock.time_s = 1.0
    assert link.take_use() == 1.0
    assert KvLink(1, clock).take_use() == 1.0, "no time has passed"
