"""One request on its way through the servers of a model: whom to ask, what to try again.

1. Choose a server: one that is up, takes requests, and has the least to do.
2. Wait while that server wants no request. Where the wait would outlast the deadline, fail now.
3. Make an attempt. Where it fails in a way that may pass, and nothing was shown yet, begin again,
   at most `tries_max` times in all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from heddle.core.ports import Clock
from heddle.engines.remote.endpoint import A, Endpoint, Endpoints
from heddle.engines.remote.problem import RemoteProblem, Trouble

TRIES_MAX: Final = 3
PAUSE_S: Final = 0.25  # before a server that failed is asked again because no other is there

T = TypeVar("T")


@dataclass(slots=True)
class Attempts(Generic[A]):
    """The attempts of one request.

    Args:
        endpoints: the servers.
        clock: the time of the deadline.
        deadline_s: until when the answer is wanted, on that clock [s].
        tries_max: how often it is sent in all.

    Mutates: the endpoints learn how the servers do; `tries` counts.
    """

    endpoints: Endpoints[A]
    clock: Clock
    deadline_s: float
    tries_max: int = TRIES_MAX
    tries: int = 0
    _tried: list[Endpoint[A]] = field(default_factory=list)

    async def run(
        self,
        attempt: Callable[[Endpoint[A]], Awaitable[T]],
        shown: Callable[[], int] = lambda: 0,
    ) -> tuple[Endpoint[A], T]:
        """Return the server that has answered, and its answer.

        Args:
            attempt: asks one server.
            shown: characters of the answer that the caller has been shown: they can't be taken
                back, so no further attempt is made.

        Raises:
            RemoteProblem: there is no answer; its words name model and server.
        """
        while True:
            server = await self._next_server()
            self.tries += 1
            server.in_flight += 1
            try:
                found = await attempt(server)
            except RemoteProblem as problem:
                if problem.may_pass or problem.trouble is Trouble.SILENT:
                    server.failed(problem, self.clock.now_s())
                is_last = self.tries >= self.tries_max or not problem.may_pass
                if is_last or shown():
                    raise self._named(server, problem, shown()) from None
                self._tried.append(server)
            else:
                server.answered()
                return server, found
            finally:
                server.in_flight -= 1

    async def _next_server(self) -> Endpoint[A]:
        """Return the server to ask, once it may be asked."""
        now_s = self.clock.now_s()
        left_s = max(0.0, self.deadline_s - now_s)
        is_last = self.tries + 1 >= self.tries_max
        server = self.endpoints.choose(now_s, self._tried, left_s=left_s, is_last=is_last)
        wait_s = server.busy_until_s - now_s
        if wait_s <= 0 and server in self._tried:
            wait_s = PAUSE_S * (1 << (self.tries - 1))
        if wait_s > left_s:
            raise RemoteProblem(
                Trouble.BUSY,
                f"model {server.abilities.model!r}: {server.name} is too busy: it may be asked "
                f"again in {wait_s:.0f} s, and this request has {left_s:.0f} s left",
                retry_after_s=wait_s,
            )
        if wait_s > 0:
            await _pause(wait_s)
        return server

    def _named(self, server: Endpoint[A], problem: RemoteProblem, shown: int) -> RemoteProblem:
        """Return a problem that says by itself where it was."""
        words = f"model {server.abilities.model!r}: {server.name} {problem.words}"
        if shown:
            words += f" after {shown:,} characters of the answer"
        if problem.trouble is Trouble.NO_ENTRY and not server.client.key.value:
            words += "; set HEDDLE_REMOTE_KEY"
        if self.tries > 1:
            words += f"; {self.tries} tries"
        return RemoteProblem(problem.trouble, words, retry_after_s=problem.retry_after_s)


async def _pause(seconds: float) -> None:
    """Wait; cancelling ends it at once."""
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=seconds)
