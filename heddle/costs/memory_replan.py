"""Whether a server's memory should be split anew, since its requests have changed. Pure.

Source: HedraRAG §4.4, which solves eq. 2 for each new workflow, by its average stages.
Deviates: the stages are those that requests have taken lately. A new split takes a restart, so
    only a lasting and notable gain in predicted throughput asks for one. A smaller size of KV pages
    with the same throughput doesn't. (ADR 40)
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from heddle.costs.memory_split import (
    MeasuredCurves,
    MemorySplit,
    StageMix,
    predict_split,
    split_memory,
)

GAIN_MIN: Final = 0.10  # of predicted throughput, for which a restart is advised
GAIN_KEPT: Final = 0.05  # below it, advice that was given is taken back
HOLD_S: Final = 300.0  # for which a change has to last before the advice follows it


class Replan(NamedTuple):
    """What the present split serves of the requests that come now, and what a better one would.

    `rate_per_s` of them are to be served.
    """

    present: MemorySplit
    better: MemorySplit
    rate_per_s: float

    @property
    def gain(self) -> float:
        """The share by which the better split serves more; inf where the present one serves 0."""
        if not self.present.requests_per_s:
            return float("inf")
        return self.better.requests_per_s / self.present.requests_per_s - 1


@dataclass(frozen=True, slots=True)
class ReplanState:
    """What is advised now, and since when every review has found something else [s]."""

    advised: Replan | None = None
    differs_since_s: float | None = None


def find_replan(
    curves: MeasuredCurves, planned: MemorySplit, mix: StageMix, rate_per_s: float
) -> Replan | None:
    """Return the split that serves more than the planned one; None = there is none.

    Args:
        curves: what was measured.
        planned: the server's split.
        mix: stages that a request takes now.
        rate_per_s: requests a second that the server is to serve; inf = as many as it can.
    """
    if not any(mix):
        return None
    budget_bytes = planned.kv_bytes + planned.rest_bytes
    present = predict_split(curves, mix, rate_per_s, budget_bytes, planned.kv_bytes)
    better = split_memory(curves, mix, rate_per_s, budget_bytes)
    if better.requests_per_s <= present.requests_per_s:
        return None
    return Replan(present, better, rate_per_s)


def review(state: ReplanState, found: Replan | None, now_s: float) -> ReplanState:
    """Return the next state: the advice changes once the finding has differed from it for HOLD_S.

    Args:
        state: the one before.
        found: what `find_replan` returned now.
        now_s: when [s].
    """
    gain_min = GAIN_MIN if state.advised is None else GAIN_KEPT
    if found is not None and found.gain < gain_min:
        found = None
    if _kv_bytes(found) == _kv_bytes(state.advised):
        return ReplanState(found)
    since_s = now_s if state.differs_since_s is None else state.differs_since_s
    if now_s - since_s >= HOLD_S:
        return ReplanState(found)
    return replace(state, differs_since_s=since_s)


def _kv_bytes(replan: Replan | None) -> int | None:
    return None if replan is None else replan.better.kv_bytes
