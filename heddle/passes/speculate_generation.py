"""Write on behind a prompt that is computed ahead, and show nothing before its hits are final.

Source: HedraRAG §4.3 (speculative generation).
Deviates: the decode goes on only where its prompt may be ready before the search ends.
Keeps: every answer. Tokens are shown only if the final prompt has the same tokens.
"""

from dataclasses import dataclass
from typing import Final

from heddle.costs.speculation import speculation_gain_s
from heddle.passes.cycle_view import CycleView, Edit, EngineView, Provisional, SpeculateDecode

REST_MAX: Final = 2.0  # times the predicted rest: a decode that comes too late costs nothing


@dataclass(frozen=True, slots=True)
class SpeculateGeneration:
    """Asks for a decode behind each prompt that the search may outlast."""

    name: str = "speculate_generation"

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return the decodes that pay, if their prompts are computed ahead at all."""
        found = ((p, self._gain_s(p, view.engines[p.engine])) for p in view.provisional)
        return tuple(SpeculateDecode(p, gain_s) for p, gain_s in found if gain_s > 0)

    def _gain_s(self, prompt: Provisional, engine: EngineView) -> float:
        """Return how much of the decode fits before the search ends, at most [s]."""
        curve = engine.curve
        if curve is None or engine.costs is None or not prompt.decode_tokens:
            return 0.0
        prompt_s = curve.seconds(engine.tokens) + curve.seconds(prompt.tokens)
        rest_s = max(0.0, REST_MAX * prompt.rest_s - prompt_s)
        step = {"call": 1.0, "decode_tokens": 1.0, "context_tokens": float(prompt.tokens)}
        token_s = engine.costs.predict_s(step)
        probability = prompt.probability * prompt.win_rate
        decode_s = prompt.decode_tokens * token_s
        lost_s = (1 - probability) * min(rest_s, decode_s)  # written for nothing, before others
        gain_s = speculation_gain_s(probability, rest_s, decode_s, token_s)
        return gain_s - lost_s * engine.delay
