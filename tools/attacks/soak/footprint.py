"""How much of the machine a server's processes hold."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from heddle.corpus.sqlite.database import FILE_NAME

SHARED: Final = Path("/dev/shm")
DATABASES: Final = "PostgreSQL."  # which tests beside it may start and stop
MEMFD: Final = "/memfd:"
PSS: Final = "Pss:"
KIB: Final = 1024
UNIQUE: Final = re.compile(r":\[\d+\]$")  # of sockets and pipes
CONNECTIONS: Final = tuple(FILE_NAME + end for end in ("", "-wal"))  # what one to a corpus opens


@dataclass(frozen=True, slots=True)
class Footprint:
    """One look at all processes of a server.

    Attributes:
        process_bytes: memory of each process, the server's first; pages shared by several
            processes are divided among them [bytes].
        descriptors: what each open descriptor is, in order of its name; without one connection to
            the corpus for each thread, which opens it when it first needs it.
        memfds: mappings of nameless shared memory.
    """

    process_bytes: tuple[int, ...]
    descriptors: tuple[str, ...]
    memfds: int

    @property
    def fds(self) -> int:
        """Open descriptors."""
        return len(self.descriptors)

    def counts(self) -> dict[str, object]:
        """Return its numbers."""
        return {"process_bytes": self.process_bytes, "fds": self.fds, "memfds": self.memfds}

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
            tuple(sorted(name for folder in folders for name in _descriptors(folder))),
            sum(memfd_mappings((folder / "maps").read_text()) for folder in folders),
        )


def pss_bytes(rollup: str) -> int:
    """Return the proportional memory [bytes] that a `smaps_rollup` names."""
    return sum(int(line.split()[1]) for line in _lines(rollup, PSS)) * KIB


def memfd_mappings(maps: str) -> int:
    """Return how many mappings of nameless shared memory a `maps` has."""
    return sum(MEMFD in line for line in maps.splitlines())


def named_blocks(folder: Path = SHARED) -> frozenset[str]:
    """Return the names of shared memory that outlives its process, but for other programs' own."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(path.name for path in folder.iterdir() if not path.name.startswith(DATABASES))


def without_connections(descriptors: Iterable[str], threads: int) -> Iterator[str]:
    """Leave out a connection to the corpus for each thread of a process; more of them stay."""
    connections: Counter[str] = Counter()
    for name in descriptors:
        if name.endswith(CONNECTIONS):
            connections[name] += 1
            if connections[name] <= threads:
                continue
        yield name


def _descriptors(process: Path) -> Iterator[str]:
    """Return what the descriptors of a process are, without numbers that differ between runs."""
    threads = sum(1 for _ in (process / "task").iterdir())
    return without_connections(_opened(process / "fd"), threads)


def _opened(folder: Path) -> Iterator[str]:
    for descriptor in folder.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield UNIQUE.sub("", str(descriptor.readlink()))


def _lines(text: str, begin: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith(begin))
