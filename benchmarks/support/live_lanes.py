"""Embedding lanes in processes of their own behind the pool, driven by one thread."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from heddle.app.assembly.lane_probe import LaneProbe
from heddle.core.credits import Credits
from heddle.core.primitives import PrimitiveKind
from heddle.engines.embedding.admission_policies import AdmissionPolicy
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.embedding.lane_pool import LanePool
from heddle.engines.embedding.lane_queue import LaneQueue
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.process import ProcessLane, start_lanes
from heddle.hosts.process_port import ProcessPort
from heddle.runtime.clock import SystemClock

ROWS_MAX = 4096
EMBEDDING_FACTORY = "heddle.engines.embedding.build:build_engine"


def embedding_lane(
    name: str,
    dtype: str,
    cpus: Sequence[int],
    model: str | None = None,
    *,
    device: str = "cpu",
    environment: tuple[tuple[str, str], ...] = (),
) -> LaneSpec:
    """Return a lane of one embedding engine on some cores, with a thread on each; () = any core."""
    threads = max(1, len(cpus))
    engine = EngineSpec(
        name,
        EMBEDDING_FACTORY,
        EmbeddingSettings(model, dtype, device, threads=threads, cache_bytes=0),
        ROWS_MAX,
        frozenset({PrimitiveKind.EMBEDDING}),
    )
    return LaneSpec(name, (engine,), tuple(cpus), threads, environment=environment)


class LiveLanes:
    """Starts lanes, times their steps, and ends them. The fastest lane comes first."""

    def __init__(self, specs: Sequence[LaneSpec], batch_tokens_max: int = 512) -> None:
        self.clock = SystemClock()
        self.arrived = threading.Event()
        self._specs, self._batch_tokens_max = tuple(specs), batch_tokens_max
        self._stack = ExitStack()
        self.lanes: tuple[ProcessLane, ...] = ()

    def __enter__(self) -> Self:
        self.lanes = start_lanes(self._specs)
        for lane in self.lanes:
            self._stack.callback(lane.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def ports(self) -> tuple[ProcessPort, ...]:
        """The lanes' engines, in their order."""
        return tuple(port for lane in self.lanes for port in lane.ports.values())

    def probe(self, index: int) -> LaneProbe:
        """Return a probe of one lane."""
        return LaneProbe(self.ports[index], self.clock)

    @property
    def probes(self) -> dict[str, LaneProbe]:
        """A probe of each lane, by its name."""
        return {port.name: LaneProbe(port, self.clock) for port in self.ports}

    def pool(
        self, policy: AdmissionPolicy, queues: Sequence[LaneQueue], *, heterogeneous: bool
    ) -> LanePool:
        """Return the lanes behind a queue manager; sets `arrived` when they have told something."""
        pool = LanePool(
            "embedding",
            self.ports,
            QueueManager(queues, policy, heterogeneous),
            TokenEstimate(256),
            self.clock,
            is_up=lambda port: True,
            credits=Credits(ROWS_MAX),
        )
        pool.subscribe(self.arrived.set)
        return pool

    def queues(self) -> list[LaneQueue]:
        """Return fresh books, with what each lane costs by a cold start."""
        return [
            LaneQueue(p.name, self.probe(i).cold_start(), self._batch_tokens_max, ROWS_MAX)
            for i, p in enumerate(self.ports)
        ]

    def wait_until(self, pool: LanePool, until_s: float) -> None:
        """Take in what the lanes tell until a time on the clock."""
        while (left_s := until_s - self.clock.now_s()) > 0:
            if self.arrived.wait(left_s):
                self.arrived.clear()
                pool.frames()
