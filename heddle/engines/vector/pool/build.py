"""Settings of a pool in front of a lane's vector engine, and how it is put there. Light."""

import math
from dataclasses import dataclass

from heddle.core.errors import ConfigError
from heddle.core.payloads import SearchPayload
from heddle.core.tasks import Task
from heddle.engines.vector.pool.engine import PooledEngine, PoolEngine
from heddle.engines.vector.pool.kv_link import KvLink
from heddle.engines.vector.pool.limits import PREFILL_SLO_S, PoolKnobs
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import Stage
from heddle.engines.vector.pool.scheduler import PoolScheduler


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How searches before a prefill and searches while decoding share a vector lane.

    Args:
        policy: which of them get the slots.
        slots: searches that run at once; few, as a core does not gain by more.
        prefill_slo_s: how long a search before a prefill may take, or what is left of its
            request's time if that is less [s].
        prefill_lanes: LLM lanes that hand their prompts to others; 0 = none.
        flush_s: how long a search waits for others to start with it, while some run [s].

    Raises:
        ConfigError: a value is out of range.
    """

    policy: PoolPolicy
    slots: int = 4
    prefill_slo_s: float = PREFILL_SLO_S
    prefill_lanes: int = 0
    flush_s: float = 0.0

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ConfigError(f"pool slots: need at least 1, got {self.slots}")
        if not self.prefill_slo_s > 0:
            raise ConfigError(f"pool prefill_slo_s: need a positive time, got {self.prefill_slo_s}")
        if not 0 <= self.flush_s < math.inf:
            raise ConfigError(f"pool flush_s: need 0 or a time, got {self.flush_s}")


def pooled(engine: PooledEngine, settings: PoolSettings) -> PoolEngine:
    """Put a pool in front of an engine with at least twice its slots."""
    return PoolEngine(
        engine,
        stage_of,
        PoolScheduler(settings.slots, settings.policy, PoolKnobs.flushing(settings.flush_s)),
        prefill_slo_s=settings.prefill_slo_s,
        kv_link=KvLink(settings.prefill_lanes),
    )


def stage_of(task: Task) -> Stage:
    """Return which side of the LLM a search comes from."""
    payload = task.payload
    assert isinstance(payload, SearchPayload), f"{type(payload).__name__} in a pool of searches"
    return Stage.DECODE if payload.while_decoding else Stage.PREFILL
