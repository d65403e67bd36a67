"""The disk under the simulated corpus: it outlives lanes and servers, and it may fail."""

import errno
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from heddle.simulator.faults import DISK_FAULTS, NO_FAULTS, Fault, FaultSource


def _reliable() -> FaultSource:
    return FaultSource(NO_FAULTS, random.Random(0), DISK_FAULTS)


@dataclass(slots=True)
class Disk:
    """Which chunks have a vector that can be read, and which had one.

    Mutates: `write` adds to `stored`; bit rot moves a chunk to `rotten`, where its checksum fails.
    """

    faults: FaultSource = field(default_factory=_reliable)
    stored: set[int] = field(default_factory=set)
    rotten: set[int] = field(default_factory=set)

    def write(self, chunk_ids: Sequence[int]) -> None:
        """Write the vectors of chunks.

        Raises:
            OSError: the disk is full or broken; some of them may have been written.
        """
        fault = self.faults.next()
        if fault is Fault.DISK_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fault is Fault.DISK_ERROR:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if fault is Fault.BIT_ROT and self.stored:
            rotten = self.faults.draws.choice(sorted(self.stored))
            self.stored.remove(rotten)
            self.rotten.add(rotten)
        torn = len(chunk_ids) // 2 if fault is Fault.TORN_WRITE else len(chunk_ids)
        self.stored.update(chunk_ids[:torn])
        self.rotten.difference_update(chunk_ids[:torn])
        if fault is Fault.TORN_WRITE:
            raise OSError(errno.EIO, "the write stopped in the middle")
