"""Whether a prompt is worth fusing from stored chunk KV, or is computed whole. Pure.

Fusing computes fewer tokens, in more steps, and each of its tokens takes longer: queries with gaps
between them read keys in the pages of many chunks. In a short prompt, and in one whose chunks are
mostly not stored, that costs more than it saves. All prices are of the engine's own cost model,
which is fitted to its steps with prompts of both kinds.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from heddle.core.cost_snapshot import CostSnapshot

GAIN_MIN: Final = 0.1  # of the whole prompt's time: approximate answers have to be worth something
EXTRA: Final = ("fused_rows", "fused_tokens")


class Sweep(NamedTuple):
    """Tokens of a prompt that go through the model together, step after step.

    The sweep's last step looks at `context_tokens`, of which the first `context_before` were there
    before it. `is_fused`: between the tokens are gaps. `checks`: they go through the first layers
    only.
    """

    tokens: int
    context_tokens: int
    context_before: int = 0
    is_fused: bool = False
    checks: bool = False


def sweeps_s(sweeps: Iterable[Sweep], costs: CostSnapshot, step_tokens: int, beside: int) -> float:
    """Return the predicted time of the engine's work for a prompt [s].

    A step's fixed cost is shared with the sequences that it computes besides.

    Args:
        sweeps: of the prompt, one after the other.
        costs: of the engine's steps.
        step_tokens: most prompt tokens of a step.
        beside: sequences that have a seat already.
    """
    return sum(costs.predict_s(_features(sweep, step_tokens, beside)) for sweep in sweeps)


def _features(sweep: Sweep, step_tokens: int, beside: int) -> dict[str, float]:
    steps = max(1, -(-sweep.tokens // step_tokens))
    # Each step sees as much more of the context as the one before has added to it.
    added = (sweep.context_tokens - sweep.context_before) / steps
    seen = steps * sweep.context_before + added * steps * (steps + 1) / 2
    is_whole = not sweep.checks
    return {
        "call": steps / (1 + beside),
        "prefill_tokens": float(sweep.tokens * is_whole),
        "checked_tokens": float(sweep.tokens * sweep.checks),
        "context_tokens": seen,
        "fused_rows": float(steps * sweep.is_fused),
        "fused_tokens": float(sweep.tokens * (sweep.is_fused and is_whole)),
    }


def extra_s(sweeps: Iterable[Sweep], costs: CostSnapshot, step_tokens: int) -> float:
    """Return what these sweeps take because they are a fused prompt's, part of `sweeps_s` [s]."""
    return sum(
        costs.predict_s({name: _features(sweep, step_tokens, 0)[name] for name in EXTRA})
        for sweep in sweeps
    )


class FusionForecast(NamedTuple):
    """What a prompt would take of the engine, computed whole and fused [s].

    `extra_s` is the part of `fused_s` that its rows and tokens cost more than a whole prompt's.
    """

    whole_s: float
    fused_s: float
    extra_s: float = 0.0

    @property
    def pays(self) -> bool:
        """Whether fusing saves enough."""
        return self.fused_s <= (1.0 - GAIN_MIN) * self.whole_s

    @property
    def pays_but_for_extra(self) -> bool:
        """Whether it would if fused rows and tokens cost no more than others."""
        return self._replace(fused_s=self.fused_s - self.extra_s).pays
