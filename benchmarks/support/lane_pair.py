"""Two embedding lanes of unequal speed on this machine: processes with cores of their own."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.support.live_lanes import LiveLanes, embedding_lane
from heddle.core.errors import InputError
from heddle.core.instruction_sets import VARIABLE
from heddle.hosts.devices import Device, DeviceKind, detect_devices
from heddle.hosts.machine import MachineFacts, read_machine

X86: Final = ("x86_64", "AMD64")
# What holds the libraries of a process to the instructions of twenty years ago. Matrix products are
# MKL's on some CPUs and oneDNN's on others; everything else is ATen's.
SSE2: Final = (
    ("MKL_CBWR", "COMPATIBLE"),
    ("ONEDNN_MAX_CPU_ISA", "SSE41"),
    ("ATEN_CPU_CAPABILITY", "default"),
    (VARIABLE, ""),  # with `--held` the others have a set that this lane has less than
)
KEPT_CORES: Final = 2  # of an accelerator's lane and of this process, the low ones


@dataclass(frozen=True, slots=True)
class PairedLane:
    """One of the two: its device, dtype and cores, and what its environment has besides."""

    name: str
    device: str
    dtype: str
    cpus: tuple[int, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LanePair:
    """The fast lane and the slow one.

    On CPU cores both compute in float32 and the slow one is held to SSE2, a proxy for an older
    core: the same pair on every x86 CPU. A token takes about three times as long there, as with
    float32 beside bfloat16 on AMX, and the fixed part of a step about as long. In bfloat16, where
    the CPU has it in hardware, the slow one computes in float32. On a GPU the slow one has the
    cores of the NUMA node with the most, but for the low ones.
    """

    fast: PairedLane
    slow: PairedLane

    @classmethod
    def here(cls, dtype: str = "float32", device: str = "cpu") -> Self:
        """Return the pair that this machine has.

        Raises:
            InputError: it has one core only, no such device, or no bfloat16 in hardware.
        """
        machine = read_machine()
        if len(machine.cpus) < 2:
            raise InputError(f"two lanes need two cores, here is {len(machine.cpus)}")
        nodes = [one for one in detect_devices(machine) if one.kind is DeviceKind.CPU]
        if device != "cpu":
            return cls._beside_gpu(dtype, machine, nodes)
        fast, slow, *_ = machine.cpus
        if dtype == "bfloat16":
            if not any(node.has_fast_bfloat16 for node in nodes):
                raise InputError("this CPU emulates bfloat16: leave --dtype out")
            return cls(_on_cpu("bfloat16", (fast,)), _on_cpu("float32", (slow,)))
        if platform.machine() not in X86:
            raise InputError(
                f"the slow lane is held to SSE2, which {platform.machine()} doesn't have: run this "
                "with --dtype bfloat16 where the CPU has that in hardware, or with --device cuda"
            )
        return cls(_on_cpu("float32", (fast,)), _on_cpu("float32", (slow,), SSE2))

    @classmethod
    def _beside_gpu(cls, dtype: str, machine: MachineFacts, nodes: list[Device]) -> Self:
        if not machine.gpus:
            raise InputError("--device cuda: there is no GPU here")
        kept = machine.cpus[:KEPT_CORES]
        cpus = max((tuple(c for c in n.cpus if c not in kept) for n in nodes), key=len)
        cpus = cpus[-max(1, machine.cores - KEPT_CORES) :] or machine.cpus[-1:]
        return cls(PairedLane("cuda0", "cuda:0", dtype), _on_cpu(dtype, cpus))

    @property
    def names(self) -> tuple[str, str]:
        """The lanes' names, the fast one first."""
        return self.fast.name, self.slow.name

    @property
    def is_proxy(self) -> bool:
        """Whether the slow lane stands for an older core."""
        return bool(self.slow.environment)

    @contextmanager
    def started(self, model: str | None = None) -> Iterator[LiveLanes]:
        """Run both with a model, None = the packaged MiniLM."""
        if self.is_proxy:
            print(f"{self.slow.name}: held to SSE2, a proxy for an older core")
        specs = [
            embedding_lane(
                lane.name,
                lane.dtype,
                lane.cpus,
                model,
                device=lane.device,
                environment=lane.environment,
            )
            for lane in (self.fast, self.slow)
        ]
        with LiveLanes(specs) as live:
            yield live


def _on_cpu(
    dtype: str, cpus: tuple[int, ...], environment: tuple[tuple[str, str], ...] = ()
) -> PairedLane:
    cores = f"core{cpus[0]}" if len(cpus) == 1 else f"{len(cpus)}cores"
    held = "-sse2" if environment else ""
    return PairedLane(f"{cores}-{dtype}{held}", "cpu", dtype, cpus, environment)
