"""How much of the machine a server's processes hold."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

SHARED: Final = Path("/dev/shm")
MEMFD: Final = "/memfd:"
PSS: Final = "Pss:"
KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Footprint:
    """One look at all processes of a server.

    Attributes:
        pss_bytes: memory, pages shared by several processes divided among them [bytes].
        fds: open descriptors.
        memfds: mappings of nameless shared memory.
    """

    pss_bytes: int
    fds: int
    memfds: int

    @classmethod
    def of(cls, processes: Iterable[psutil.Process]) -> "Footprint":
        """Look at processes.

        Raises:
            OSError: one of them is gone, or is another user's.
        """
        folders = [Path(f"/proc/{process.pid}") for process in processes]
        return cls(
            sum(pss_bytes((folder / "smaps_rollup").read_text()) for folder in folders),
            sum(1 for folder in folders for _ in (folder / "fd").iterdir()),
            sum(memfd_mappings((folder / "maps").read_text()) for folder in folders),
        )


def pss_bytes(rollup: str) -> int:
    """Return the proportional memory [bytes] that a `smaps_rollup` names."""
    return sum(int(line.split()[1]) for line in _lines(rollup, PSS)) * KIB


def memfd_mappings(maps: str) -> int:
    """Return how many mappings of nameless shared memory a `maps` has."""
    return sum(MEMFD in line for line in maps.splitlines())


def named_blocks(folder: Path = SHARED) -> frozenset[str]:
    """Return the names of shared memory that outlives its process."""
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()


def _lines(text: str, begin: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith(begin))
