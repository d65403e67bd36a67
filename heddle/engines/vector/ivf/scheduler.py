"""Which inverted lists the next sub-stage scans. Pure: no index, no device, no clock."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 4  # rows that are priced before asking whether the budget is full
NO_LIST = -1

Upcoming = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Rows [m] -> the lists each scans from now on, [m, w], NO_LIST = none left."""

Pending = Callable[[int], NDArray[np.int64]]
"""A row -> the lists it has yet to scan, in its order, [m]."""

Price = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Upcoming lists [m, w] -> predicted seconds to scan each, [m, w]; anything for NO_LIST."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The searches in flight, one query a row.

    Shapes: all [n], int64 but for `ranks`. `lists_left` counts clusters still to scan; a lower
    `priorities` is served first, in it the lower `ranks` (see `CallOrder`); of equals the lower
    `arrivals`, which the rows of one task have in common.
    """

    lists_left: NDArray[np.int64]
    priorities: NDArray[np.int64]
    ranks: NDArray[np.float64]
    arrivals: NDArray[np.int64]


def plan_substage(
    rows: Rows,
    upcoming: Upcoming,
    price: Price,
    budget_s: float,
    lists_max: int | None = None,
) -> NDArray[np.int64]:
    """Return how many of its next clusters each row scans, filling the time budget.

    Within a priority class the row of the lowest rank goes first. A row whose whole rest costs
    less than the budget is taken whole or not at all, as cutting it would only cost; only a
    longer one is cut, in a step of its own task: those that end in a step don't wait for a part
    of one that goes on. The first cluster is always taken, so a list dearer than the budget
    can't stall the engine.

    Args:
        rows: the searches in flight.
        upcoming: returns which lists some rows scan from now on.
        price: predicts how long scans take.
        budget_s: time for the scans [s]; inf takes everything.
        lists_max: the most clusters one row scans in this sub-stage.
    Shapes: the answer [n] int64.
    Source: HedraRAG §4.2 (sub-stages under a time budget); the order is ours.
    """
    limits = rows.lists_left if lists_max is None else np.minimum(rows.lists_left, lists_max)
    if math.isinf(budget_s) and budget_s > 0:
        return limits
    counts = np.zeros_like(limits)
    order = _order(rows)
    order = order[limits[order] > 0]
    left_s = budget_s
    for first in range(0, len(order), ROWS_AT_ONCE):
        block = order[first : first + ROWS_AT_ONCE]
        may_cut = rows.arrivals[block] == rows.arrivals[order[0]]
        counts[block], left_s = _fill(
            upcoming(block), limits[block], may_cut, price, left_s, budget_s
        )
        if left_s <= 0:
            break
    if not counts.any():
        counts[order[:1]] = 1
    return counts


def plan_shared(
    rows: Rows,
    pending: Pending,
    wanting: NDArray[np.int64],
    list_s: NDArray[np.float64],
    budget_s: float,
) -> NDArray[np.int64]:
    """Return the lists that every row which has yet to scan them scans now, filling the budget.

    The rows of the lowest ranks say which lists are read; the others ride along, as comparing a
    vector that is read anyway with one more query costs little. What is not cut, and what is
    always taken, is as in `plan_substage`.

    Args:
        rows: the searches in flight; one at least has lists left.
        pending: returns which lists a row has yet to scan.
        wanting: rows that have yet to scan each list, [nlist].
        list_s: predicted time to scan each list for all of these [s], [nlist].
        budget_s: time for the scans [s]; inf takes everything.
    Shapes: the answer [m] int64, ascending.
    Source: HedraRAG §4.2; that the clusters of a sub-stage are shared is ours.
    """
    is_wanted = wanting > 0
    if list_s @ is_wanted <= budget_s:
        return np.flatnonzero(is_wanted)
    is_chosen = np.zeros(len(wanting), bool)
    order, left_s = _order(rows), budget_s
    order = order[rows.lists_left[order] > 0]
    for row in order.tolist():  # no further than the budget goes
        lists = pending(row)
        lists = lists[~is_chosen[lists]]
        ends_s = np.cumsum(list_s[lists])
        fitting = int(np.searchsorted(ends_s, left_s, side="right"))
        if fitting == len(lists):
            left_s -= float(ends_s[-1]) if fitting else 0.0
        elif ends_s[-1] <= budget_s or rows.arrivals[row] != rows.arrivals[order[0]]:
            break
        is_chosen[lists[:fitting]] = True
        if fitting < len(lists):
            break
    if not is_chosen.any():
        is_chosen[pending(int(order[0]))[0]] = True
    return np.flatnonzero(is_chosen)


def _order(rows: Rows) -> NDArray[np.int64]:
    return np.lexsort((rows.arrivals, rows.ranks, rows.priorities))


def _fill(
    lists: NDArray[np.int64],
    limits: NDArray[np.int64],
    may_cut: NDArray[np.bool_],
    price: Price,
    left_s: float,
    budget_s: float,
) -> tuple[NDArray[np.int64], float]:
    """Return some rows' counts and the time that is left, 0 once a row did not fit.

    Shapes: lists [m, w], limits and may_cut [m], in the order in which they are served.
    """
    wanted = np.arange(lists.shape[1]) < limits[:, None]
    prices_s = np.where(wanted, price(lists), 0.0)
    # The cumulative price only grows from row to row, so what fits is a prefix.
    ends_s = np.cumsum(prices_s).reshape(prices_s.shape)
    counts: NDArray[np.int64] = ((ends_s <= left_s) & wanted).sum(axis=1)
    if ends_s[-1, -1] <= left_s:
        return counts, left_s - float(ends_s[-1, -1])
    cut = int(np.argmax(ends_s[:, -1] > left_s))
    if prices_s[cut].sum() <= budget_s or not may_cut[cut]:
        counts[cut] = 0
    return counts, 0.0
