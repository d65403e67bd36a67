"""A second try for what failed: half an hour of a run isn't worth one lost frame."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from benchmarks.coscheduling.journal import Journal
from heddle.core.errors import HeddleError, InternalError

T = TypeVar("T")


async def tried_twice(what: str, run: Callable[[], Awaitable[T]], journal: Journal) -> T:
    """Return what a run measures; one that fails is noted, and run again, once.

    Args:
        what: names it.
        run: begins it anew.
        journal: takes in each failure.

    Raises:
        InternalError: it failed both times.
    """
    try:
        return await run()
    except (HeddleError, ExceptionGroup) as error:
        _note(what, error, journal)
    try:
        return await run()
    except (HeddleError, ExceptionGroup) as error:
        _note(what, error, journal)
        raise InternalError(f"{what} failed twice: {error!r}") from error


def _note(what: str, error: Exception, journal: Journal) -> None:
    journal.note("failed", {"what": what, "why": repr(error)})
    print(f"{what} failed: {error!r}", flush=True)
