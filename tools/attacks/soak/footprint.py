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
        process_bytes: memory of each process, the server's first; pages shared by several
            processes are divided among them [bytes].
        fds: open descriptors.
        memfds: mappings of nameless shared memory.
    """

    process_bytes: tuple[int, ...]
    fds: int
    memfds: int

    @property
    def pss_bytes(self) -> int:
        """Memory of all processes [bytes]."""
        return sum(self.process_bytes)

    @classmethod
    def of(cls, processes: Iterable[psutil.Process]) -> "Footprint":
        """Look at processes.

        Raises:
            OSError: one of them is gone, or is another user's.
        """
        folders = [Path(f"/proc/{process.pid}") for process in processes]
        return cls(
            tuple(pss_bytes((folder / "smaps_rollup").read_text()) for folder in folders),
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
