"""How busy the links from prefill to decode were, from what lanes have told."""

from heddle.engines.vector.pool.kv_link import KvLink


def test_the_use_is_of_the_time_since_the_last_look():
    link = KvLink(2)
    assert link.take_use(0.0) == 1.0, "no time has passed"
    link.sent(0.3)
    link.sent(0.1)
    assert link.take_use(1.0) == 0.2
    assert link.take_use(3.0) == 0.0
    link.sent(5.0)
    assert link.take_use(4.0) == 1.0
    assert link.take_use(4.0) == 1.0, "no time has passed"


def test_where_no_lane_sends_no_link_idles():
    link = KvLink(0)
    assert [link.take_use(now_s) for now_s in (0.0, 1.0)] == [1.0, 1.0]
