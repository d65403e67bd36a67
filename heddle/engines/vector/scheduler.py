"""Which inverted lists the next sub-stage scans. Pure: no index, no device, no clock."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 4  # rows that are priced before asking whether the budget is full
WAIT_MAX = 16  # sub-stages that a row is passed over before it goes first
NO_LIST = -1

Upcoming = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Rows [m] -> the lists each scans from now on, [m, w], NO_LIST = none left."""

Price = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Upcoming lists [m, w] -> predicted seconds to scan each, [m, w]; anything for NO_LIST."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The searches in flight, one query a row.

    Shapes: all [n] int64. `lists_left` counts clusters still to scan; a lower `priorities` is
    served first; `waited` counts sub-stages since a row was last served; of equals the lower
    `arrivals` goes first.
    """

    lists_left: NDArray[np.int64]
    priorities: NDArray[np.int64]
    waited: NDArray[np.int64]
    arrivals: NDArray[np.int64]


def plan_substage(
    rows: Rows,
    upcoming: Upcoming,
    price: Price,
    budget_s: float,
    lists_max: int | None = None,
) -> NDArray[np.int64]:
    """Return how many of its next clusters each row scans, filling the time budget.

    Within a priority class the row with the fewest clusters left goes first, which makes the
    mean wait shortest, but for rows passed over WAIT_MAX times: these go before all of the class,
    so none starves. A row whose whole rest costs less than the budget is taken whole or not at
    all, as cutting it would only cost; only a longer one is cut. The first cluster is always
    taken, so a list dearer than the budget can't stall the engine.

    Args:
        rows: the searches in flight.
        upcoming: tells which lists some rows scan from now on.
        price: predicts how long scans take.
        budget_s: time for the scans [s]; inf takes everything.
        lists_max: the most clusters one row scans in this sub-stage.
    Shapes: the answer [n] int64.
    Source: HedraRAG §4.2 (sub-stages under a time budget); the order is shortest remaining first.
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
        counts[block], left_s = _fill(upcoming(block), limits[block], price, left_s, budget_s)
        if left_s <= 0:
            break
    if not counts.any():
        counts[order[:1]] = 1
    return counts


def waited_after(counts: NDArray[np.int64], waited: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows' new `waited` after a sub-stage. Shapes: all [n] int64."""
    return np.where(counts > 0, 0, waited + 1)


def _order(rows: Rows) -> NDArray[np.int64]:
    overdue = np.where(rows.waited >= WAIT_MAX, rows.waited, 0)
    return np.lexsort((rows.arrivals, rows.lists_left, -overdue, rows.priorities))


def _fill(
    lists: NDArray[np.int64],
    limits: NDArray[np.int64],
    price: Price,
    left_s: float,
    budget_s: float,
) -> tuple[NDArray[np.int64], float]:
    """Return some rows' counts and the time that is left, 0 once a row did not fit.

    Shapes: lists [m, w] and limits [m], in the order in which they are served.
    """
    wanted = np.arange(lists.shape[1]) < limits[:, None]
    prices_s = np.where(wanted, price(lists), 0.0)
    # The cumulative price only grows from row to row, so what fits is a prefix.
    ends_s = np.cumsum(prices_s).reshape(prices_s.shape)
    counts: NDArray[np.int64] = ((ends_s <= left_s) & wanted).sum(axis=1)
    if ends_s[-1, -1] <= left_s:
        return counts, left_s - float(ends_s[-1, -1])
    cut = int(np.argmax(ends_s[:, -1] > left_s))
    if prices_s[cut].sum() <= budget_s:
        counts[cut] = 0
    return counts, 0.0
