"""What a cycle pass sees and may ask for, frozen both ways. (docs/architecture.md#passes)"""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity
from heddle.costs.throughput import ThroughputCurve


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine this cycle: what waits, what runs, what its steps cost.

    `tokens` are those that the LLM tasks in flight still compute: the rest of each prompt, and one
    for each decode.
    """

    name: str
    kinds: frozenset[PrimitiveKind]
    in_flight: int
    pending: int
    load: Load
    costs: CostSnapshot | None
    stage_s: float | None  # mean length of a whole stage (task) on this engine, measured [s]
    budget_s: float | None  # the step budget in force
    tokens: int = 0

    @property
    def curve(self) -> ThroughputCurve | None:
        """Its throughput by the tokens of a step; None where it computes no tokens."""
        return ThroughputCurve.of(self.costs)

    @property
    def room_per_s(self) -> float:
        """Tokens a second that it could compute beside its tasks, the paper's τ·T_max − T_curr.

        Zero or less where it is busy, where requests wait for it, or where nothing is measured.
        """
        curve = self.curve
        return 0.0 if curve is None or self.pending else curve.room_per_s(self.tokens)


@dataclass(frozen=True, slots=True)
class Provisional:
    """A prompt of `tokens` tokens as it will be if a search finds nothing better from now on.

    That has this `probability`; the search goes on for about `rest_s` [s], and then `prefill` of
    the request goes to `engine`. `win_rate` is how often guesses of this node have won by now,
    over how often they were predicted to, at most 1. The prompt shows `chunk_ids`; `looks` counts
    the looks at the search, and `looks_stable` those since the passages changed. Behind the prompt
    at most `decode_tokens` tokens can be written ahead, 0 = none.
    """

    request_id: int
    prefill: str
    engine: str
    tokens: int
    probability: float
    rest_s: float
    win_rate: float = 1.0
    chunk_ids: tuple[int, ...] = ()
    looks: int = 1
    looks_stable: int = 0
    decode_tokens: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """The prefill of the request, which has one guess at a time."""
        return self.request_id, self.prefill


@dataclass(frozen=True, slots=True)
class CycleView:
    """The wavefront (primitives that can run now) and the engines, at `now_s`.

    `provisional` are the prompts that searches under way have brought forth since the last cycle.
    """

    now_s: float
    wavefront: tuple[Identity, ...]
    engines: Mapping[str, EngineView]
    provisional: tuple[Provisional, ...] = ()


@dataclass(frozen=True, slots=True)
class SetBudget:
    """Edit: cut an engine's work into steps of this length. `gain_s` is the predicted gain."""

    engine: str
    budget_s: float
    gain_s: float


@dataclass(frozen=True, slots=True)
class Speculate:
    """Edit: compute a provisional prompt ahead. `gain_s` is the predicted gain."""

    provisional: Provisional
    gain_s: float


@dataclass(frozen=True, slots=True)
class SpeculateDecode:
    """Edit: write on behind a prompt that is computed ahead. `gain_s` is the predicted gain.

    It acts where the prompt's `Speculate` came before it in the same cycle.
    """

    provisional: Provisional
    gain_s: float


Edit = SetBudget | Speculate | SpeculateDecode
