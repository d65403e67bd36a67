"""What a thread does once at the end of a turn, however often that was asked for in the turn."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Turn(threading.local):
    """What a thread is to do at the end of its turn; None = it is in none."""

    acts: list[Callable[[], None]] | None = None


_turn = _Turn()


@contextmanager
def turn() -> Iterator[None]:
    """Put off to the end of this block what its thread does better once for all.

    A cycle that gives each of 32 streams a token so wakes their loop when all tokens are there, and
    the commands that it sends to a lane leave by one call of the system.
    """
    assert _turn.acts is None, "a thread has one turn at a time"
    acts: list[Callable[[], None]] = []
    _turn.acts = acts
    try:
        yield
    finally:
        _turn.acts = None
        for act in acts:
            act()


def at_turn_end(act: Callable[[], None]) -> bool:
    """Have `act` called when this thread's turn ends; return whether it is in one."""
    if _turn.acts is None:
        return False
    _turn.acts.append(act)
    return True
