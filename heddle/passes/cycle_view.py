"""What a cycle pass sees and may ask for, frozen both ways. (docs/architecture.md#passes)"""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity


@dataclass(frozen=True, slots=True)
class EngineView:
    """One engine this cycle: what waits, what runs, what its steps cost."""

    name: str
    kinds: frozenset[PrimitiveKind]
    in_flight: int
    pending: int
    load: Load
    costs: CostSnapshot | None
    stage_s: float | None  # mean length of a whole stage (task) on this engine, measured [s]
    budget_s: float | None  # the step budget in force


@dataclass(frozen=True, slots=True)
class Provisional:
    """A prompt of `tokens` tokens as it will be if a search finds nothing better from now on.

    That has this `probability`; the search goes on for about `rest_s` [s], and then `prefill` of
    the request goes to `engine`.
    """

    request_id: int
    prefill: str
    engine: str
    tokens: int
    probability: float
    rest_s: float


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


Edit = SetBudget | Speculate
