"""How much of the machine's time other guests took."""

from pathlib import Path
from typing import Self

STEAL = 8  # field of the first line of /proc/stat (proc(5))


class Stolen:
    """The share of all cores' time that was stolen while a block runs.

    Mutates: `share` is set when the block ends; 0 where the system doesn't say.
    """

    share: float = 0.0

    def __enter__(self) -> Self:
        self._stolen, self._all = _ticks()
        return self

    def __exit__(self, *_: object) -> None:
        stolen, total = _ticks()
        self.share = (stolen - self._stolen) / max(1, total - self._all)


def _ticks() -> tuple[int, int]:
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0, 0
    fields = stat.read_text("ascii").splitlines()[0].split()
    counts = [int(field) for field in fields[1:]]
    return counts[STEAL - 1], sum(counts[:STEAL])
