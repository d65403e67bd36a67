"""Compute prompts with the passages that their searches have by now, while these go on.

Source: HedraRAG §4.3 (speculative generation): guesses are added while T_curr < τ·T_max.
Deviates: among the guesses, the predicted gain chooses, not the distance of the hits. The engine
    runs a guess in the background, so that no request's step gets longer by it. A busy engine has
    room between requests, too; what a guess adds to its work is charged there as well.
Keeps: every answer. What was computed is found by its tokens or not at all.
"""

from dataclasses import dataclass

from heddle.costs.speculation import speculation_cost_s, speculation_gain_s
from heddle.costs.throughput import ThroughputCurve
from heddle.passes.cycle_view import CycleView, Edit, EngineView, Provisional, Speculate


@dataclass(frozen=True, slots=True)
class SpeculatePrefill:
    """`step_s` is the longest step of an LLM engine in the background [s]."""

    step_s: float = 0.25
    name: str = "speculate_prefill"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return the prompts with the largest gains, until their engines have no room left."""
        offered: dict[str, list[Provisional]] = {}
        for provisional in view.provisional:
            offered.setdefault(provisional.engine, []).append(provisional)
        return tuple(
            edit for name, prompts in offered.items() for edit in self._fill(view, name, prompts)
        )

    def _fill(self, view: CycleView, name: str, prompts: list[Provisional]) -> list[Edit]:
        engine = view.engines[name]
        curve = engine.curve
        if curve is None or engine.room_per_s <= 0:
            return []
        edits: list[Edit] = []
        left, tokens = list(prompts), engine.tokens
        while left and curve.room_per_s(tokens) > 0:
            gains = [self._gain_s(prompt, engine, curve, tokens) for prompt in left]
            best = max(range(len(left)), key=gains.__getitem__)
            if gains[best] <= 0:
                break
            prompt = left.pop(best)
            edits.append(Speculate(prompt, gains[best]))
            tokens += prompt.tokens
        return edits

    def _gain_s(
        self, prompt: Provisional, engine: EngineView, curve: ThroughputCurve, tokens: int
    ) -> float:
        """Return the predicted gain of a prompt behind `tokens` tokens of others [s].

        Those go first, so that only the rest of the search after them can be saved.
        """
        # Right or wrong, a guess takes the engine a step more than the prompt alone would.
        prefill_s = curve.call_s + curve.token_s * prompt.tokens
        rest_s = max(0.0, prompt.rest_s - curve.seconds(tokens))
        probability = prompt.probability * prompt.win_rate
        gain_s = speculation_gain_s(probability, rest_s, prefill_s, self.step_s)
        return gain_s - speculation_cost_s(probability, prefill_s, curve.call_s, engine.delay)
