"""The device detector: what can embed here, found without loading torch. (WindVE §IV-C)"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from heddle.hosts.machine import MachineFacts


class DeviceKind(Enum):
    """Kinds of devices, the fast ones first."""

    CUDA = "cuda"
    NPU = "npu"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Device:
    """One device: an accelerator, or the cores of one NUMA node that this process may use.

    `index` is torch's, or the NUMA node's number. An accelerator is taken to be fast in bfloat16,
    as all but old ones are: only torch could tell. `quota` is how many cores' worth of time the
    cgroup grants all nodes together; inf = no quota.
    """

    kind: DeviceKind
    index: int
    name: str
    cpus: tuple[int, ...] = ()
    has_fast_bfloat16: bool = False
    quota: float = math.inf

    @property
    def torch_name(self) -> str:
        """The device as torch names it."""
        return "cpu" if self.kind is DeviceKind.CPU else f"{self.kind.value}:{self.index}"

    def line(self) -> str:
        """Return the device in words, for the log and `heddle doctor`."""
        if self.kind is not DeviceKind.CPU:
            return f"{self.torch_name} ({self.name})"
        bfloat16 = "bfloat16 in hardware" if self.has_fast_bfloat16 else "no fast bfloat16"
        cores = ", ".join(map(str, self.cpus))
        return f"cpu, NUMA node {self.index}: cores {cores}{self._quota_words()}, {bfloat16}"

    def _quota_words(self) -> str:
        if math.isinf(self.quota):
            return ""
        share = f", by the cgroup's quota {self.quota:g} cores' worth of time"
        return share if self.quota >= 1 else f"{share}: less than one, so steps are held up"


def detect_devices(machine: MachineFacts, root: Path = Path("/")) -> tuple[Device, ...]:
    """Return the devices that can embed, accelerators first, then NUMA nodes.

    An NPU counts where its torch extension is installed, because nothing else could use it.
    """
    gpus = [
        Device(DeviceKind.CUDA, index, name, has_fast_bfloat16=True)
        for index, name in enumerate(machine.gpus)
    ]
    npus = [
        Device(DeviceKind.NPU, index, path.name, has_fast_bfloat16=True)
        for index, path in enumerate(_npu_files(root))
        if find_spec("torch_npu") is not None
    ]
    nodes = [
        Device(
            DeviceKind.CPU,
            node,
            machine.cpu_model,
            cpus,
            has_fast_bfloat16=machine.has_fast_bfloat16,
            quota=machine.cpu_quota,
        )
        for node, cpus in numa_nodes(machine.cpus, root)
    ]
    return (*gpus, *npus, *nodes)


def node_of(cpus: Sequence[int], devices: Sequence[Device]) -> int | None:
    """Return the NUMA node that holds all these cores; None = no single one does."""
    nodes = (device for device in devices if device.kind is DeviceKind.CPU)
    return next((node.index for node in nodes if cpus and set(cpus) <= set(node.cpus)), None)


def _npu_files(root: Path) -> list[Path]:
    return sorted((root / "dev").glob("davinci[0-9]*"))


def numa_nodes(usable: Sequence[int], root: Path = Path("/")) -> list[tuple[int, tuple[int, ...]]]:
    """Return each NUMA node's number and its usable cores; one node where the system names none."""
    nodes = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        cpus = _cores_listed(folder / "cpulist").intersection(usable)
        if cpus:
            nodes.append((int(folder.name.removeprefix("node")), tuple(sorted(cpus))))
    return sorted(nodes) or [(0, tuple(usable))]


def _cores_listed(path: Path) -> set[int]:
    """Read a list such as 0-3,8."""
    try:
        text = path.read_text(encoding="ascii")
    except OSError:
        return set(range(os.cpu_count() or 1))
    cores: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        cores.update(range(int(first), int(last or first) + 1))
    return cores
