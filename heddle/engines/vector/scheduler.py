"""Which inverted lists the next sub-stage scans. Pure: no index, no device, no clock."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TURNS_AT_ONCE = 16  # turns that are priced before asking whether the budget is full
NO_LIST = -1
NOT_SERVED_YET = np.iinfo(np.int64).max  # `served_at` of a row that joins: the end of the round

Upcoming = Callable[[int, int], NDArray[np.int64]]
"""(first, stop) -> the list numbers of those turns, [n, stop - first], NO_LIST = none left."""

Price = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""List numbers -> predicted seconds to scan each, of the same shape; anything for NO_LIST."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The searches in flight, one query a row.

    Shapes: all [n] int64. `lists_left` counts clusters still to scan; a lower `priorities` is
    served first; `served_at` orders a class's rows, least recently served first.
    """

    lists_left: NDArray[np.int64]
    priorities: NDArray[np.int64]
    served_at: NDArray[np.int64]


def plan_substage(
    rows: Rows,
    upcoming: Upcoming,
    price: Price,
    budget_s: float,
    lists_max: int | None = None,
) -> NDArray[np.int64]:
    """Return how many of its next clusters each row scans, filling the time budget.

    Clusters are taken turn by turn, one of each row, so every search of a priority class
    advances; a lower class gets what the higher ones leave. The first cluster is always taken,
    so a list dearer than the budget can't stall the engine.

    Args:
        rows: the searches in flight.
        upcoming: tells the list numbers of a range of turns, counted from now.
        price: predicts how long scans take.
        budget_s: time for the scans [s]; inf takes everything.
        lists_max: the most clusters one row scans in this sub-stage.
    Shapes: the answer [n] int64.
    Source: HedraRAG §4.2 (sub-stages under a time budget).
    """
    limits = rows.lists_left if lists_max is None else np.minimum(rows.lists_left, lists_max)
    if math.isinf(budget_s) and budget_s > 0:
        return limits
    counts = np.zeros_like(limits)
    left_s = budget_s
    for priority in sorted(set(rows.priorities.tolist())):
        members = np.flatnonzero(rows.priorities == priority)
        members = members[np.argsort(rows.served_at[members], kind="stable")]
        counts[members], left_s = _fill(members, limits[members], upcoming, price, left_s)
        if left_s <= 0:
            break
    if not counts.any():
        _take_first(counts, rows, limits)
    return counts


def _fill(
    members: NDArray[np.int64],
    limits: NDArray[np.int64],
    upcoming: Upcoming,
    price: Price,
    budget_s: float,
) -> tuple[NDArray[np.int64], float]:
    """Return the members' counts and the time that is left, 0 once a scan did not fit."""
    counts = np.zeros_like(limits)
    turns = int(limits.max(initial=0))
    left_s = budget_s
    for first in range(0, turns, TURNS_AT_ONCE):
        stop = min(first + TURNS_AT_ONCE, turns)
        lists = upcoming(first, stop)[members]
        wanted = np.arange(first, stop) < limits[:, None]
        prices_s = np.where(wanted, price(lists), 0.0)
        # One row after another within a turn, one turn after another: the cumulative price in
        # that order only grows, so what fits is a prefix.
        ends_s = np.cumsum(prices_s.T).reshape(stop - first, -1).T
        counts += ((ends_s <= left_s) & wanted).sum(axis=1)
        if ends_s[-1, -1] > left_s:
            return counts, 0.0
        left_s -= float(ends_s[-1, -1])
    return counts, left_s


def _take_first(counts: NDArray[np.int64], rows: Rows, limits: NDArray[np.int64]) -> None:
    order = np.lexsort((rows.served_at, rows.priorities))
    startable = order[limits[order] > 0]
    counts[startable[:1]] = 1


def served_after(counts: NDArray[np.int64], served_at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows' new `served_at` after a sub-stage, so the next one continues the round.

    Rows that got nothing come first, then those that the budget cut off in the last turn, then
    those that got it; equals keep their order. Shapes: all [n] int64, the answer 0..n-1.
    """
    order = np.lexsort((served_at, counts))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks
