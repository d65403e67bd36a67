"""The garbage collector and what a process makes at its start, which stays until its end."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected_start() -> Iterator[None]:
    """Let a process of Heddle's own start without collections, but for one at the end.

    torch's modules alone are 150,000 objects. Each full collection walks over all of them, several
    times while they are made.

    Mutates: the collector of this process: what is there at the end is left out of collections.
    """
    gc.disable()
    try:
        yield
        keep_started()
    finally:
        gc.enable()


def keep_started() -> None:
    """Leave all that this process holds by now out of later collections.

    These stop every thread for as long as they walk, 0.2 s where torch is. A program that merely
    imports Heddle keeps its collector as it is: objects left out are never given back in cycles.
    """
    gc.collect()
    gc.freeze()
