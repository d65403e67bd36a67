"""Until when a pool's prefill searches may wait, and all of them still end in time. Pure."""

import heapq
from collections.abc import Iterable, Sequence

from heddle.engines.vector.pool.requests import PoolRequest

CAUTION = 2.0
"""A search's assumed time over its predicted one, so that a slower search still ends in time. The
searches that come next are not known, and find the slots taken by those that began late."""
ROUNDS_MAX = 4  # of searches in all slots: those further behind are not looked at yet


def latest_start_s(
    now_s: float, waiting: Iterable[PoolRequest], taken_until_s: Sequence[float], slots: int
) -> float:
    """Return when the first waiting search has to start, for each of them to end in time [s].

    They start least slack first, each in the slot that is free first, as if no other search wanted
    one. A search that follows a running one is not delayed by waiting until that one ends.

    Args:
        now_s: the time now [s].
        waiting: searches with deadlines; inf where there are none.
        taken_until_s: when the slots that can't be taken back should come free [s].
        slots: how many there are.
    """
    # Each slot: when it is free, and until when waiting doesn't delay that.
    free = [(max(now_s, until_s), max(now_s, until_s)) for until_s in taken_until_s]
    free += [(now_s, now_s)] * (slots - len(free))
    heapq.heapify(free)
    latest_s = float("inf")
    for request in heapq.nsmallest(ROUNDS_MAX * slots, waiting, key=own_latest_start_s):
        starts_s, undelayed_s = free[0]
        latest_s = min(latest_s, undelayed_s + own_latest_start_s(request) - starts_s)
        heapq.heapreplace(free, (starts_s + CAUTION * request.alone_s, undelayed_s))
    return latest_s


def own_latest_start_s(request: PoolRequest) -> float:
    """Return when a search's slack turns negative [s]; orders by slack at any time."""
    return request.deadline_s - CAUTION * request.alone_s
