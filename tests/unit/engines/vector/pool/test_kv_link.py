"""How busy the links from prefill to decode were, from what lanes have told."""

import pytest

from heddle.core.commands import KvSent
from heddle.engines.vector.pool.feedback import PoolSignals, PoolTargets, adjusted
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.limits import SHARE_MAX, PoolKnobs

PERIOD_S = 0.3


def settled(link, sending_s, stepping_s, periods=60):
    """Return a link's use after many periods in which lanes did the same."""
    for period in range(periods):
        use = link.take_use(PERIOD_S * period)
        link.sent(KvSent(sending_s, stepping_s))
    return use


@pytest.mark.parametrize(
    ("lanes", "sending_s", "stepping_s", "use"),
    [
        (1, 0.006, 0.15, 0.5),  # a lane that computes half of the time
        (1, 0.006, 0.3, 1.0),  # and one that never pauses, over a fast link
        (1, 0.15, 0.1, 0.5),  # a slow link
        (2, 0.15, 0.3, 0.5),
        (1, 0.9, 0.3, 1.0),
    ],
)
def test_a_link_is_used_as_far_as_its_lane_or_the_link_allows(lanes, sending_s, stepping_s, use):
    assert settled(KvLink(lanes), sending_s, stepping_s) == pytest.approx(use, abs=0.01)


def test_where_no_lane_sends_no_link_idles():
    assert settled(KvLink(0), 0.1, 0.1) == 1.0
    link = KvLink(1)
    assert [link.take_use(now_s) for now_s in (0.0, 1.0)] == [1.0, 1.0], "nothing was sent yet"


def test_one_long_prompt_counts_for_the_time_in_which_it_was_computed():
    link = KvLink(1)
    settled(link, 0.006, 0.3)
    uses = []
    for period in range(60, 64):  # a prompt of four periods, sent at its end
        uses.append(link.take_use(PERIOD_S * period))
    link.sent(KvSent(0.024, 1.2))
    assert min(uses) > 0.6
    assert link.take_use(PERIOD_S * 64) > 0.9


@pytest.mark.parametrize(("stepping_s", "share"), [(0.3, 0.5), (0.1, SHARE_MAX)])
def test_prefills_share_grows_while_its_lanes_pause_for_searches(stepping_s, share):
    """As on one machine: sending takes a fiftieth of the computing."""
    link, knobs = KvLink(1), PoolKnobs()
    link.take_use(0.0)
    for period in range(1, 20):
        link.sent(KvSent(stepping_s / 50, stepping_s))
        signals = PoolSignals(link.take_use(PERIOD_S * period), 0.001, 0.0)
        knobs = adjusted(knobs, signals, PoolTargets(prefill_wait_s=0.025))
    assert knobs.share == pytest.approx(share)
