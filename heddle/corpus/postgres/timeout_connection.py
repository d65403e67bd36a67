"""A connection whose caller doesn't wait for ever for what the server says."""

from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

R = TypeVar("R")
# What psycopg's own generators yield (what to wait for) and are sent (what is ready).
Waiting = Generator[Any, Any, R]


class NoAnswer(psycopg.OperationalError):
    """The server hasn't answered in time.

    Args:
        waited_s: how long it had [s].
    """

    def __init__(self, waited_s: float) -> None:
        super().__init__(f"no answer within {waited_s:g} s")


class TimeoutConnection(psycopg.Connection[tuple[object, ...]]):
    """A connection that gives a server up which is silent for too long: it is closed then.

    A server's own `statement_timeout` ends a statement that it works on, not one that it never
    sees: its process may be stopped, its disk may hang, or the network.

    Attributes:
        answer_s: how long it may be silent while somebody waits [s]; None = as long as it takes.
    """

    answer_s: float | None = None

    def wait(self, gen: Waiting[R], *how: Any, **named: Any) -> R:  # noqa: ANN401 - psycopg's
        """Wait for what psycopg's generator `gen` waits for.

        Raises: NoAnswer: the server was silent for too long.
        """
        if self.answer_s is None:
            return super().wait(gen, *how, **named)
        return super().wait(self._bounded(gen, self.answer_s), interval=self.answer_s)

    def _bounded(self, gen: Waiting[R], answer_s: float) -> Waiting[R]:
        """Pass on what `gen` waits for, but for an interval in which nothing has come."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready:
                    self.pgconn.finish()  # else it would wait for the answer once more
                    raise NoAnswer(answer_s)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: R = end.value
            return result
