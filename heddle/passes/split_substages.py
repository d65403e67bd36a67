"""Cut searches into sub-stages where that is predicted to pay, and leave them whole elsewhere.

A search that just arrived then waits for the rest of a sub-stage, not of a whole batch, and short
searches end before long ones. Each sub-stage costs an overhead, and long searches end later. What
pays depends on the load, on how the searches differ in length and on what lists they share. So
the newest searches are replayed under each budget, with what they and a sub-stage were measured to
take. Of the budgets whose slow searches end about as early as in whole batches, the one with the
smallest geometric mean is taken, which counts a search that takes twice as long alike, be it short
or long. The budget in force stays while no other is clearly better.

Source: HedraRAG §4.2 (node splitting under a time budget).
Deviates: by that replay. Eq. 1 knows neither load nor order, and counts no overhead that others
    wait for. It serves where no lists are known, and where partial hits are looked at between
    steps and the lane has the idle time.
Keeps: which lists are scanned for a search, hence its exact result.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import Final

from heddle.core.call_order import SHORTEST_FIRST, CallOrder, FirstServed
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
GAIN_MIN: Final = 0.05  # by which another budget must be better: less is within a replay's error
SLOW_MAX: Final = 1.15  # the slow searches' mean, times that in whole batches: their own spread
SLOW_SHARE: Final = 0.1
IDLE_MAX: Final = 0.25  # of the idle time, for overhead: a replay is too short to show queues grow
MARGIN: Final = 1.15  # on a share: a search of that much work must not be cut in the engine


@dataclass(frozen=True, slots=True)
class SplitSubstages:
    """`overhead_s` is the least that one more sub-stage counts as, the paper's beta [s].

    The default is about what `heddle bench ivf-step` shows for steps of 2 ms: what they add to one
    call, by their number. A lane's own fit may say more; less would be the engine's part alone.
    `order` is whose search the engines serve first; that of requests is replayed as arrivals.
    """

    overhead_s: float = 4e-4
    order: CallOrder = SHORTEST_FIRST
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
            best = looked_at or _replayed(
                _Replay(engine.calls, cost, self._ageing), engine.budget_s
            )
        elif engine.stage_s and not engine.has_lists:
            best = self._by_eq_1(engine.stage_s)
        else:
            return None  # nothing new is known: what is in force stands
        if engine.budget_s is not None:
            moved = abs(best.budget_s - engine.budget_s) / engine.budget_s
            if moved < REFIT_SHARE:
                return None
        return SetBudget(engine.name, best.budget_s, best.gain_s)

    @property
    def _ageing(self) -> float:
        is_shortest = self.order.first is FirstServed.SHORTEST
        return self.order.ageing if is_shortest else math.inf

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


@dataclass(frozen=True, slots=True)
class _Served:
    """What searches take under a budget [s]: on average, typically, and the slow ones of them."""

    budget_s: float
    mean_s: float
    typical_s: float
    slow_s: float


@dataclass(frozen=True, slots=True)
class _Replay:
    calls: Sequence[SearchCall]
    cost: StepCost
    ageing: float

    @property
    def beside_s(self) -> float:
        """What a step of one search costs beside its scans [s]."""
        return self.cost.step_s + self.cost.row_s

    def under(self, budget_s: float) -> _Served:
        """Serve the searches under a budget."""
        took_s = sorted(replayed_s(self.calls, budget_s, self.cost, self.ageing))
        slow_s = fmean(took_s[-max(1, int(SLOW_SHARE * len(took_s))) :])
        return _Served(budget_s, fmean(took_s), geometric_mean(took_s), slow_s)

    def fair(self, budgets_s: Iterable[float], batches: _Served) -> Iterator[_Served]:
        """Yield how the budgets serve that the lane has the time for, and slow searches as well."""
        for budget_s in budgets_s:
            if _is_idle_enough(self.calls, self.beside_s / (budget_s - self.beside_s)):
                served = self.under(budget_s)
                if served.slow_s <= SLOW_MAX * batches.slow_s:
                    yield served


def _replayed(replay: _Replay, in_force_s: float | None) -> _Budget:
    """Return the budget that would have served the searches best; about as good, that in force."""
    works_s, beside_s = [call.work_s for call in replay.calls], replay.beside_s
    work_s = fmean(works_s)
    whole_s = max(WHOLE_SHARE * work_s, WHOLE_OVERHEADS * beside_s, *works_s) + beside_s
    batches, whole = replay.under(math.inf), replay.under(whole_s)
    cuts = (in_force_s,) if in_force_s is not None and beside_s < in_force_s < whole_s else ()
    kept = next(replay.fair(cuts, batches), whole)
    tried = replay.fair((MARGIN * (share * work_s + beside_s) for share in SHARES), batches)
    best = min((whole, *tried), key=lambda served: served.typical_s)
    if best.typical_s > (1 - GAIN_MIN) * kept.typical_s:
        best = kept
    gain_s = 0.0 if best is whole else max(0.0, batches.mean_s - best.mean_s)
    return _Budget(best.budget_s, gain_s)


def _is_idle_enough(calls: Sequence[SearchCall], overhead: float) -> bool:
    """Whether the engine has the idle time for an overhead, a share of the searches' work."""
    works_s = [call.work_s for call in calls]
    load = sum(works_s) / max(calls[-1].sent_s - calls[0].sent_s, *works_s)
    return load * overhead <= IDLE_MAX * (1 - load)
