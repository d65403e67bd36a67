"""Cut searches into sub-stages where that is predicted to pay, and leave them whole elsewhere.

A search that just arrived then waits for the rest of a sub-stage, not of a whole batch, and short
searches end before long ones. Each sub-stage costs an overhead, and long searches end later. What
pays depends on the load, on how the searches differ in length and on what lists they share. So
the newest searches are replayed under each budget, with what they and a sub-stage were measured to
take, and the budget with the smallest mean is taken whose slow searches end no later than in whole
batches.

Source: HedraRAG §4.2 (node splitting under a time budget).
Deviates: by that replay. Eq. 1 knows neither load nor order, and counts no overhead that others
    wait for. It serves where no lists are known, and where partial hits are looked at between
    steps and the lane has the idle time.
Keeps: which lists are scanned for a search, hence its exact result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from heddle.core.primitives import PrimitiveKind
from heddle.costs.substage import (
    SearchCall,
    StepCost,
    replayed_s,
    substage_budget_s,
    substage_gain_s,
)
from heddle.passes.cycle_view import CycleView, Edit, EngineView, SetBudget

REFIT_SHARE: Final = 0.2  # a budget closer than this to the one in force isn't worth a command
SHARES: Final = (0.25, 0.5, 1.0, 2.0)  # budgets that are tried, by the mean work of a search
WHOLE_SHARE: Final = 4.0  # a step of whole searches; it ends at some time, for other classes' sake
WHOLE_OVERHEADS: Final = 50.0  # nor may its overhead be more than 2 % of it
GAIN_MIN: Final = 0.05  # of the mean: less is within what a replay is wrong by
TAIL_MAX: Final = 1.02  # the slow searches' mean, times that in whole batches
TAIL_SHARE: Final = 0.1
IDLE_MAX: Final = 0.25  # of the idle time, for overhead: a replay is too short to show queues grow
MARGIN: Final = 1.15  # on a replayed budget: what just fitted a step must not be cut in the engine


@dataclass(frozen=True, slots=True)
class SplitSubstages:
    """`overhead_s` is the least that one more sub-stage counts as, the paper's beta [s].

    The default is about what `heddle bench ivf-step` shows for steps of 2 ms: what they add to one
    call, by their number. A lane's own fit may say more; less would be the engine's part alone.
    """

    overhead_s: float = 4e-4
    name: str = "split_substages"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return a new step budget for each search engine whose best budget has moved."""
        found = (
            self._edit(engine, is_watched=view.speculates)
            for engine in view.engines.values()
            if PrimitiveKind.SEARCHING in engine.kinds
        )
        return tuple(edit for edit in found if edit is not None)

    def _edit(self, engine: EngineView, *, is_watched: bool) -> SetBudget | None:
        if engine.calls:
            cost = self._cost(engine)
            looked_at = _for_looks(engine.calls, cost) if is_watched else None
            best = looked_at or _replayed(engine.calls, cost)
        elif engine.stage_s and not engine.has_lists:
            best = self._by_eq_1(engine.stage_s)
        else:
            return None  # nothing new is known: what is in force stands
        if engine.budget_s is not None:
            moved = abs(best.budget_s - engine.budget_s) / engine.budget_s
            if moved < REFIT_SHARE:
                return None
        return SetBudget(engine.name, best.budget_s, best.gain_s)

    def _cost(self, engine: EngineView) -> StepCost:
        costs = {} if engine.costs is None else engine.costs.coefficients_s
        return StepCost(max(self.overhead_s, costs.get("call", 0.0)), costs.get("scans", 0.0))

    def _by_eq_1(self, stage_s: float) -> "_Budget":
        budget_s = substage_budget_s(stage_s, self.overhead_s)
        return _Budget(budget_s, max(0.0, substage_gain_s(stage_s, self.overhead_s, budget_s)))


@dataclass(frozen=True, slots=True)
class _Budget:
    budget_s: float
    gain_s: float


def _for_looks(calls: Sequence[SearchCall], cost: StepCost) -> _Budget | None:
    """Return the budget of eq. 1, so that partial hits are looked at; None where it costs others.

    What looks gain is the speculation's, which the replay knows nothing of.
    """
    work_s, beside_s = fmean(call.work_s for call in calls), cost.step_s + cost.row_s
    budget_s = substage_budget_s(work_s, beside_s)
    gain_s = substage_gain_s(work_s, beside_s, budget_s)
    if gain_s <= 0 or not _is_idle_enough(calls, beside_s / budget_s):
        return None
    return _Budget(budget_s + beside_s, gain_s)


def _replayed(calls: Sequence[SearchCall], cost: StepCost) -> _Budget:
    """Return the budget that would have served these searches best."""
    works_s = [call.work_s for call in calls]
    work_s, beside_s = fmean(works_s), cost.step_s + cost.row_s
    batches_s = replayed_s(calls, math.inf, cost)
    whole_s = max(WHOLE_SHARE * work_s, WHOLE_OVERHEADS * beside_s, *works_s) + beside_s
    best, best_s = _Budget(whole_s, 0.0), fmean(replayed_s(calls, whole_s, cost))
    enough_s = best_s * (1 - GAIN_MIN)
    for share in SHARES:
        if not _is_idle_enough(calls, beside_s / (share * work_s)):
            continue
        budget_s = share * work_s + beside_s
        took_s = replayed_s(calls, budget_s, cost)
        mean_s = fmean(took_s)
        if mean_s < min(best_s, enough_s) and _tail(took_s) <= TAIL_MAX * _tail(batches_s):
            best = _Budget(MARGIN * budget_s, fmean(batches_s) - mean_s)
            best_s = mean_s
    return best


def _is_idle_enough(calls: Sequence[SearchCall], overhead: float) -> bool:
    """Whether the engine has the idle time for an overhead, a share of the searches' work."""
    works_s = [call.work_s for call in calls]
    load = sum(works_s) / max(calls[-1].sent_s - calls[0].sent_s, *works_s)
    return load * overhead <= IDLE_MAX * (1 - load)


def _tail(took_s: Sequence[float]) -> float:
    """Return the mean of the slowest tenth."""
    slowest = sorted(took_s)[-max(1, int(TAIL_SHARE * len(took_s))) :]
    return fmean(slowest)
