"""What the pool knows of a search: where it comes from, and when it has to be over. Pure."""

import math
from dataclasses import dataclass
from enum import Enum

DECODE_PATIENCE = 4.0  # how long a decode search may wait, in SLOs of a prefill search


class Stage(Enum):
    """Which side of a disaggregated LLM asks. (Trinity §3.1)"""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """One search that wants a slot.

    `alone_s` is how long it should take once it runs. A decode search's deadline only says from
    when it has waited too long for others to pass it.
    """

    task_id: int
    stage: Stage
    arrived_s: float
    deadline_s: float
    alone_s: float


def latest_end_s(
    stage: Stage, now_s: float, prefill_slo_s: float, seconds_left: float = math.inf
) -> float:
    """Return the deadline of a search that comes now: its stage's, or its own if sooner [s]."""
    patience = 1.0 if stage is Stage.PREFILL else DECODE_PATIENCE
    return now_s + min(seconds_left, patience * prefill_slo_s)


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """What changes now: who starts, whose state is kept while it waits, who goes on.

    Ask again when something comes or ends, at `wake_at_s` at the latest.
    """

    start: tuple[int, ...]
    park: tuple[int, ...]
    resume: tuple[int, ...]
    wake_at_s: float
