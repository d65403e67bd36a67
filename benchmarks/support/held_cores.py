"""Has what this process plans and starts use some of its cores only."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def held_to(cpus: Collection[int]) -> Iterator[None]:
    """Hold this thread, and processes that it starts, to these cores until the block ends.

    Mutates: at the end all threads of this process may use the cores that this thread had before.
    """
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread), every)
