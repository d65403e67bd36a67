"""At which rate requests are likely to be in time, by a queue before one server."""

from collections.abc import Sequence
from typing import Final

from benchmarks.support.open_loop import Arrival, late_max
from benchmarks.support.rate_search import RateSearch

PRECISION: Final = 1.02


def likely_rate(
    arrivals: Sequence[Arrival], service_s: float, bound_s: float, seconds: float
) -> float:
    """Return a rate to begin a search with [1/s]: how arrivals bunch is in it.

    Args:
        arrivals: what comes, by the rate of one a second.
        service_s: what each request takes; they are served one after another.
        bound_s: who waits longer, its own service included, is late.
        seconds: how long requests come.
    """
    search = RateSearch(1 / service_s, PRECISION)
    while not search.is_done:
        rate = search.rate
        due_s = [arrival.at / rate for arrival in arrivals if arrival.at <= rate * seconds]
        search.take(meets=_late(due_s, service_s, bound_s) <= late_max(len(due_s)))
    return search.best or 1 / service_s


def _late(due_s: Sequence[float], service_s: float, bound_s: float) -> int:
    """Return how many are late of those that come at these moments, in order."""
    late, free_s = 0, 0.0
    for due in due_s:
        free_s = max(free_s, due) + service_s
        late += free_s - due > bound_s
    return late
