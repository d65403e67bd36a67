"""Which graph searches the next step extends, and how far. Pure: no graph, no device, no clock."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOPM_MAX = 1024
STRETCH = 16.0
"""A search without a deadline should take no longer than so many times what it takes alone. That
lets short ones pass long ones, and still no long one waits for ever."""


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The searches in flight, one query a row.

    Shapes: all [n]. A lower `priorities` is served first; `deadlines_s` on the lane's clock;
    `extends_left` is predicted.
    """

    priorities: NDArray[np.int64]
    deadlines_s: NDArray[np.float64]
    extends_left: NDArray[np.float64]


def by_slack(rows: SearchRows, extend_s: float) -> NDArray[np.int64]:
    """Return the rows in the order in which they are extended, least slack first, [n].

    Slack is deadline - now - extends left x seconds of an extend; now is the same for all.

    Source: Trinity §3.3.
    """
    slack_s = rows.deadlines_s - rows.extends_left * extend_s
    return np.lexsort((slack_s, rows.priorities))


def quantum(budget_s: float, extend_s: float, extends_left: float) -> int:
    """Return how many extends fit a budget: at least one, at most what is left for sure.

    What is left is only predicted, so twice as many may be taken.
    """
    most = max(1, math.ceil(2 * extends_left))
    if math.isinf(budget_s) or extend_s <= 0:
        return most
    return min(most, max(1, int(budget_s / extend_s)))


def soft_deadline_s(now_s: float, seconds_left: float, alone_s: float) -> float:
    """Return when a search should be over that would take `alone_s` alone [s]."""
    return now_s + min(seconds_left, STRETCH * alone_s)
