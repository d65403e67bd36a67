"""How long a retrieval sub-stage may run. (HedraRAG §4.2)"""

import math
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

from heddle.core.call_order import AGEING_DEFAULT
from heddle.core.errors import ConfigError


def substage_budget_s(retrieval_s: float, overhead_s: float) -> float:
    """Return the sub-stage time budget with the largest expected latency gain.

    Args:
        retrieval_s: mean length of a whole retrieval stage, measured online [s].
        overhead_s: scheduling cost of one more sub-stage, the paper's beta [s].

    Returns:
        The budget, in (0, retrieval_s] [s].

    Raises:
        ConfigError: either input is not positive.

    Source: HedraRAG §4.2, eq. 1 (the paper's mb).
    Deviates: eq. 1 as printed adds the overhead term and so has no interior optimum; taken as
        the cost it is, the gain (t − mb)/2 − (t/mb)·β is largest at mb = √(2·t·β).
    """
    if retrieval_s <= 0 or overhead_s <= 0:
        raise ConfigError(f"need positive times, got {retrieval_s=} and {overhead_s=}")
    return min(retrieval_s, math.sqrt(2 * retrieval_s * overhead_s))


def substage_gain_s(retrieval_s: float, overhead_s: float, budget_s: float) -> float:
    """Return the expected latency gain of sub-stages of this length [s]. (HedraRAG eq. 1)"""
    return (retrieval_s - budget_s) / 2 - retrieval_s / budget_s * overhead_s


class SearchCall(NamedTuple):
    """A search that has ended: when it was sent, and how long its own scans took [s]."""

    sent_s: float
    work_s: float


class StepCost(NamedTuple):
    """What a sub-stage costs beside its scans: itself, and each search that it scans for [s]."""

    step_s: float
    row_s: float


def replayed_s(
    calls: Sequence[SearchCall],
    budget_s: float,
    cost: StepCost,
    ageing: float = AGEING_DEFAULT,
) -> list[float]:
    """Return how long each search would have taken in steps of a budget, from sent to ended [s].

    The same calls are served on one engine by the rules of `plan_substage`: the lowest rank first,
    a search that fits a step is never cut, a longer one in steps of its own, what comes in a step
    waits for its end, and a search has its result when the step ends that scans its last list.
    What lists cost that several searches share is in `work_s`, as it was measured.

    Args:
        calls: searches by when they were sent.
        budget_s: the length of a step, above 0 [s]; inf = every step scans all that is there.
        cost: of a step.
        ageing: as in `CallOrder`; inf = the first that came is served first.
    """
    waiting: list[tuple[float, int, float]] = []  # rank, number, work left: the lowest rank first
    took_s = [0.0] * len(calls)
    now_s, coming = -math.inf, 0
    while waiting or coming < len(calls):
        if not waiting:
            now_s = max(now_s, calls[coming].sent_s)
        while coming < len(calls) and calls[coming].sent_s <= now_s:
            sent_s, work_s = calls[coming]
            insort(waiting, (sent_s + work_s / ageing, coming, work_s))
            coming += 1
        step_s, ended, waiting = _step(waiting, budget_s, cost)
        now_s += step_s
        for number in ended:
            took_s[number] = now_s - calls[number].sent_s
    return took_s


def _step(
    waiting: list[tuple[float, int, float]], budget_s: float, cost: StepCost
) -> tuple[float, list[int], list[tuple[float, int, float]]]:
    """Return how long the next step takes [s], which searches end, and what then waits."""
    budget_s = max(budget_s - cost.step_s, cost.step_s)
    left_s, step_s = budget_s, cost.step_s
    ended: list[int] = []
    for place, (rank, number, work_s) in enumerate(waiting):
        if left_s <= 0 or (left_s < work_s and (ended or work_s <= budget_s)):
            return step_s, ended, waiting[place:]
        scanned_s = min(work_s, left_s)
        step_s += cost.row_s + scanned_s
        left_s -= cost.row_s + scanned_s
        if scanned_s < work_s:
            return step_s, ended, [(rank, number, work_s - scanned_s), *waiting[place + 1 :]]
        ended.append(number)
    return step_s, ended, []
