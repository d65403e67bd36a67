"""Two embedding lanes of unequal speed on this machine: processes, pinned to a core each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.support.cpu_quota import cpu_quota
from benchmarks.support.live_lanes import LiveLanes, embedding_lane
from heddle.core.errors import InputError
from heddle.hosts.devices import DeviceKind, detect_devices
from heddle.hosts.machine import read_machine

SLOW_SHARE: Final = 1 / 3  # α of bfloat16 with AMX over float32's on one core: 4.26 to 12.7 ms


@dataclass(frozen=True, slots=True)
class LanePair:
    """The fast lane and the slow one: bfloat16 and float32 where the first is in hardware.

    A CPU that emulates bfloat16 computes in float32 on both, and the slow lane has a third of its
    core by a control group: a proxy for a slower device. It slows the fixed part of a step as
    much as the rest; float32 itself would slow the fixed part hardly at all.
    """

    cpus: tuple[int, int]
    dtypes: tuple[str, str]
    slow_share: float

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
            return cls((fast, slow), ("bfloat16", "float32"), 1.0)
        return cls((fast, slow), ("float32", "float32"), SLOW_SHARE)

    @property
    def names(self) -> tuple[str, str]:
        """The lanes' names, the fast one first: core, dtype, and a share of the core."""
        share = "" if self.slow_share == 1 else f"-{self.slow_share:.0%}"
        fast, slow = (
            f"core{cpu}-{dtype}" for cpu, dtype in zip(self.cpus, self.dtypes, strict=True)
        )
        return fast, f"{slow}{share}"

    @contextmanager
    def started(self, model: str | None = None) -> Iterator[LiveLanes]:
        """Run both with a model, None = the packaged MiniLM.

        Raises:
            InputError: control groups are needed and can't be written here.
        """
        named = zip(self.names, self.dtypes, self.cpus, strict=True)
        specs = [embedding_lane(name, dtype, (cpu,), model) for name, dtype, cpu in named]
        with LiveLanes(specs) as live:
            if self.slow_share == 1:
                yield live
                return
            print(f"{self.names[1]}: {self.slow_share:.0%} of its core by quota, a proxy")
            with cpu_quota(live.lanes[1].health.pid, self.slow_share):
                yield live
