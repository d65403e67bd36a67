"""Compute a prompt with the passages that a search has by now, while it goes on.

Source: HedraRAG §4.3 (speculative generation); its condition T_curr < τ·T_max is here an engine
    that has nothing else to do.
Deviates: by predicted gain, not by the distance of the hits; and only the prompt is computed.
Keeps: every answer. What was computed is found by its tokens or not at all.
"""

from dataclasses import dataclass

from heddle.costs.speculation import speculation_gain_s
from heddle.passes.cycle_view import CycleView, Edit, EngineView, Provisional, Speculate


@dataclass(frozen=True, slots=True)
class SpeculatePrefill:
    """`step_s` is the longest step of an LLM engine in the background [s]."""

    step_s: float = 0.25
    name: str = "speculate_prefill"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return the prompt with the largest gain for each engine that is idle."""
        best: dict[str, Speculate] = {}
        for provisional in view.provisional:
            gain_s = self._gain_s(provisional, view.engines[provisional.engine])
            known = best.get(provisional.engine)
            if gain_s > (0.0 if known is None else known.gain_s):
                best[provisional.engine] = Speculate(provisional, gain_s)
        return tuple(best.values())

    def _gain_s(self, provisional: Provisional, engine: EngineView) -> float:
        # What is in flight may be a guess as well: one at a time.
        if engine.in_flight or engine.pending or engine.costs is None:
            return 0.0
        tokens = float(provisional.tokens)
        # Right or wrong, a guess takes the engine a step more than the prompt alone would.
        overhead_s = engine.costs.predict_s({"call": 1.0})
        step = {"prefill_tokens": tokens, "context_tokens": tokens}
        prefill_s = overhead_s + engine.costs.predict_s(step)
        gain_s = speculation_gain_s(
            provisional.probability, provisional.rest_s, prefill_s, self.step_s
        )
        return gain_s - overhead_s
