"""Two embedding lanes of unequal speed on this machine: processes, pinned to a core each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.support.live_lanes import EMBEDDING_FACTORY, LiveLanes, embedding_lane
from heddle.core.errors import InputError
from heddle.hosts.devices import DeviceKind, detect_devices
from heddle.hosts.machine import read_machine

SSE2_FACTORY: Final = "benchmarks.support.sse2_engine:build_sse2_engine"


@dataclass(frozen=True, slots=True)
class LanePair:
    """The fast lane and the slow one: bfloat16 and float32 where the first is in hardware.

    A CPU that emulates bfloat16 computes in float32 on both, and the slow lane multiplies matrices
    with SSE2 instead of all that the core has: a proxy for an older core. A token takes about three
    times as long, as with float32 beside bfloat16 on AMX (12.7 and 4.26 ms a query on one core),
    and the fixed part of a step as long as on the fast lane, as there.
    """

    cpus: tuple[int, int]
    dtypes: tuple[str, str]
    is_proxy: bool

    @classmethod
    def here(cls) -> Self:
        """Return the pair that this machine has.

        Raises:
            InputError: it has one core only.
        """
        machine = read_machine()
        if len(machine.cpus) < 2:
            raise InputError(f"two lanes need two cores, here is {len(machine.cpus)}")
        fast, slow, *_ = machine.cpus
        cores = [one for one in detect_devices(machine) if one.kind is DeviceKind.CPU]
        if any(one.has_fast_bfloat16 for one in cores):
            return cls((fast, slow), ("bfloat16", "float32"), is_proxy=False)
        return cls((fast, slow), ("float32", "float32"), is_proxy=True)

    @property
    def names(self) -> tuple[str, str]:
        """The lanes' names, the fast one first: core, dtype, and what it is held to."""
        fast, slow = (
            f"core{cpu}-{dtype}" for cpu, dtype in zip(self.cpus, self.dtypes, strict=True)
        )
        return fast, f"{slow}-sse2" if self.is_proxy else slow

    @contextmanager
    def started(self, model: str | None = None) -> Iterator[LiveLanes]:
        """Run both with a model, None = the packaged MiniLM.

        Raises:
            EngineError: the proxy can't be had with this torch.
        """
        factories = (EMBEDDING_FACTORY, SSE2_FACTORY if self.is_proxy else EMBEDDING_FACTORY)
        lanes = zip(self.names, self.dtypes, self.cpus, factories, strict=True)
        specs = [
            embedding_lane(name, dtype, (cpu,), model, factory)
            for name, dtype, cpu, factory in lanes
        ]
        if self.is_proxy:
            print(f"{self.names[1]}: matrix products with SSE2 only, a proxy for an older core")
        with LiveLanes(specs) as live:
            yield live
