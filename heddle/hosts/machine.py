"""What this machine offers a server: cores, memory, vector instructions, GPUs. Loads no torch."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heddle.core.instruction_sets import TELLING_FLAGS, flags_in_force, multiplies_bfloat16

GPU = "NVIDIA GPU"  # one whose name the driver doesn't tell
_UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes "no limit" as a huge number


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine as this process may use it.

    Args:
        cpus: the cores this process may run on.
        cpu_quota: cores' worth of time that the cgroup grants, inf = no quota.
        cpu_model: the processor's name.
        cpu_flags: those of its vector instruction sets that say how fast it computes, as far as
            this process may use them.
        memory_total_bytes: memory of the machine.
        memory_limit_bytes: what this process may use: the cgroup's limit, or all of it.
        gpus: names of the NVIDIA GPUs that the driver shows and CUDA_VISIBLE_DEVICES leaves.
    """

    cpus: tuple[int, ...]
    cpu_quota: float
    cpu_model: str
    cpu_flags: frozenset[str]
    memory_total_bytes: int
    memory_limit_bytes: int
    gpus: tuple[str, ...]

    @property
    def cores(self) -> int:
        """Cores that can be kept busy: at least 1, no more than affinity and quota allow."""
        return max(1, min(len(self.cpus), math.floor(min(self.cpu_quota, len(self.cpus)))))

    @property
    def has_fast_bfloat16(self) -> bool:
        """Whether the CPU multiplies bfloat16 in hardware."""
        return multiplies_bfloat16(self.cpu_flags)


def read_machine(root: Path = Path("/")) -> MachineFacts:
    """Return the facts, read from the system's own files below `root`."""
    total_bytes = _memory_total(root)
    groups = tuple(_cgroup_folders(root))
    quotas = [_cpu_quota(folder) for folder in groups]
    limits = [_memory_limit(folder) for folder in groups]
    return MachineFacts(
        cpus=_usable_cpus(),
        cpu_quota=min(quotas, default=math.inf),
        cpu_model=_cpu_model(root),
        cpu_flags=flags_in_force(root).intersection(TELLING_FLAGS),
        memory_total_bytes=total_bytes,
        memory_limit_bytes=min([total_bytes, *limits]),
        gpus=_gpus(root),
    )


def memory_left(root: Path = Path("/")) -> int:
    """Return the bytes that this process may still take before it or another is killed."""
    available = _kilobytes(root, "MemAvailable")
    left = [] if available is None else [available]
    for folder in _cgroup_folders(root):
        limit = _memory_limit(folder)
        if limit < _UNLIMITED_BYTES:
            left.append(limit - _memory_used(folder))
    return max(0, min(left, default=_UNLIMITED_BYTES))


def _usable_cpus() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _cpu_model(root: Path) -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return model.group(1).strip() if model else "unknown"


def _memory_total(root: Path) -> int:
    total = _kilobytes(root, "MemTotal")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if total is None else total


def _kilobytes(root: Path, name: str) -> int | None:
    """Return a size from the kernel's list [bytes]; None = it isn't there."""
    found = re.search(rf"^{name}:\s*(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _cgroup_folders(root: Path) -> Iterator[Path]:
    """Yield the folders whose limits bind this process: its own groups and all above them."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers:  # v1: a tree for each controller
            bases = [mount / name for name in controllers.split(",") if name in ("cpu", "memory")]
        else:
            bases = [mount]
        for base in bases:
            # Inside a container the path may be the host's own and not exist here: then the
            # mount itself is the container's group.
            folder = base / path.lstrip("/")
            while folder != base.parent:
                yield folder
                folder = folder.parent


def _cpu_quota(folder: Path) -> float:
    """Return the cores' worth of time that one cgroup grants; inf = no quota here."""
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    if not quota.strip().isdigit() or not period.strip().isdigit():
        return math.inf  # "max" in v2, -1 in v1, or no such file
    return int(quota) / int(period)


def _memory_limit(folder: Path) -> int:
    """Return the bytes that one cgroup allows."""
    text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
    return int(text) if text.strip().isdigit() else _UNLIMITED_BYTES


def _memory_used(folder: Path) -> int:
    """Return the bytes of one cgroup that the system can't simply drop."""
    text = _read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")
    used = int(text) if text.strip().isdigit() else 0
    stat = _read(folder / "memory.stat")
    # An old kernel's total_ has the groups below as well, as its usage does.
    cached = re.findall(r"^(?:total_)?inactive_file (\d+)$", stat, re.MULTILINE)
    return used - max(map(int, cached), default=0)


def _gpus(root: Path) -> tuple[str, ...]:
    folders = sorted((root / "proc/driver/nvidia/gpus").glob("*"))
    found = [
        re.search(r"^Model:\s*(.+)$", _read(folder / "information"), re.MULTILINE)
        for folder in folders
    ]
    names = [match.group(1).strip() if match else GPU for match in found]
    # Some containers hide /proc/driver and show only the device files.
    return _visible(names or [GPU for _ in (root / "dev").glob("nvidia[0-9]*")])


def _visible(names: list[str]) -> tuple[str, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; all where it isn't set.

    As CUDA reads it: numbers or ids of GPUs, up to the first that there is none of.
    """
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(names)
    visible = []
    for part in map(str.strip, wanted.split(",")):
        if part.isdigit() and int(part) < len(names):
            visible.append(names[int(part)])
        elif names and part.startswith(("GPU-", "MIG-")):
            visible.append(GPU)
        else:
            break
    return tuple(visible)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""
