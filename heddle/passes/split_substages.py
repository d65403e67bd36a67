"""Cut retrieval stages into sub-stages of the length that pays most.

A search that just arrived then waits for the rest of a sub-stage, not of the whole batch.

Source: HedraRAG §4.2, eq. 1 (node splitting).
Keeps: which lists are scanned for a search, hence its exact result.
"""

from dataclasses import dataclass

from heddle.core.primitives import PrimitiveKind
from heddle.costs.substage import substage_budget_s, substage_gain_s
from heddle.passes.cycle_view import CycleView, Edit, EngineView, SetBudget

REFIT_SHARE = 0.2  # a budget closer than this to the one in force isn't worth a command


@dataclass(frozen=True, slots=True)
class SplitSubstages:
    """`overhead_s` is the cost of one more sub-stage, the paper's beta [s].

    The default is about what `heddle bench ivf-step` shows for steps of 2 ms: what they add to one
    call, by their number.
    """

    overhead_s: float = 4e-4
    name: str = "split_substages"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return a new step budget for each search engine whose best budget has moved."""
        found = (
            self._edit(engine)
            for engine in view.engines.values()
            if PrimitiveKind.SEARCHING in engine.kinds
        )
        return tuple(edit for edit in found if edit is not None)

    def _edit(self, engine: EngineView) -> SetBudget | None:
        if engine.stage_s is None or engine.stage_s <= 0:
            return None  # nothing measured yet: the engine's own default stands
        budget_s = substage_budget_s(engine.stage_s, self.overhead_s)
        if engine.budget_s is not None:
            moved = abs(budget_s - engine.budget_s) / engine.budget_s
            if moved < REFIT_SHARE:
                return None
        gain_s = substage_gain_s(engine.stage_s, self.overhead_s, budget_s)
        return SetBudget(engine.name, budget_s, max(0.0, gain_s))
