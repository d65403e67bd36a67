"""How busy the links from prefill to decode were, from what lanes have told."""

import pytest

from heddle.core.commands import KvSent
from heddle.engines.vector.pool.feedback import PoolSignals, PoolTargets, adjusted
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.limits import SHARE_MAX, PoolKnobs


def test_the_use_is_of_the_time_since_the_last_look():
    link = KvLink(2)
    assert link.take_use(0.0) == 1.0, "no time has passed"
    link.sent(KvSent(0.3, 0.25))
    link.sent(KvSent(0.1, 0.15))
    assert link.take_use(1.0) == 0.2
    assert link.take_use(3.0) == 0.0
    link.sent(KvSent(5.0, 5.0))
    assert link.take_use(4.0) == 1.0
    assert link.take_use(4.0) == 1.0, "no time has passed"


def test_where_no_lane_sends_no_link_idles():
    link = KvLink(0)
    assert [link.take_use(now_s) for now_s in (0.0, 1.0)] == [1.0, 1.0]


def test_a_link_that_lanes_could_not_fill_does_not_idle():
    link = KvLink(1)
    assert link.take_use(0.0) == 1.0
    assert link.take_use(1.0) == 1.0, "nothing is known of it yet"
    link.sent(KvSent(0.01, 0.9))
    assert [link.take_use(now_s) for now_s in (2.0, 3.0)] == [1.0, 1.0]
    link.sent(KvSent(0.01, 0.0))
    assert link.take_use(4.0) == 1.0, "that prompt was computed earlier"
    link.sent(KvSent(20.0, 20.0))
    link.take_use(5.0)
    link.sent(KvSent(0.5, 0.5))
    assert [link.take_use(now_s) for now_s in (6.0, 7.0)] == [0.5, 0.0]


@pytest.mark.parametrize(("sending_s", "share"), [(0.002, 0.5), (0.095, SHARE_MAX)])
def test_prefills_share_grows_for_a_link_that_could_be_filled_and_for_no_other(sending_s, share):
    link, knobs = KvLink(1), PoolKnobs()
    link.take_use(0.0)
    for period in range(1, 20):
        link.sent(KvSent(sending_s, 0.1))
        signals = PoolSignals(link.take_use(0.3 * period), 0.001, 0.0)
        knobs = adjusted(knobs, signals, PoolTargets(prefill_wait_s=0.025))
    assert knobs.share == pytest.approx(share)
