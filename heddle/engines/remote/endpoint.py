"""One server of several that run the same model, and the choice among them."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from heddle.engines.remote.http.client import HttpClient
from heddle.engines.remote.problem import RemoteProblem, Trouble

PAUSE_S: Final = 0.25  # after a first failure; each further one doubles it
PAUSE_S_MAX: Final = 30.0
BUSY_PAUSE_S: Final = 0.5  # where the other side doesn't say when to come again
BUSY_PAUSE_S_MAX: Final = 60.0  # though it says more: clocks are wrong, quotas are raised
DOUBLINGS_MAX: Final = 8

log = logging.getLogger(__name__)


class Named(Protocol):
    """What is known of any server."""

    @property
    def model(self) -> str:
        """The model's name there."""
        ...


A = TypeVar("A", bound=Named)


@dataclass(slots=True, eq=False)
class Endpoint(Generic[A]):
    """One server, and how it does.

    Args:
        client: talks to it.
        abilities: of that server.
        in_flight: requests under way.
        failures: in a row.
        down_until_s: until when others are asked first [s].
        busy_until_s: until when it is not asked, because it wants that [s].
        words: what went wrong last; empty = nothing since the last answer.

    Mutates: every method changes the counts.
    """

    client: HttpClient
    abilities: A
    in_flight: int = 0
    failures: int = 0
    down_until_s: float = 0.0
    busy_until_s: float = 0.0
    words: str = ""

    @property
    def name(self) -> str:
        """Its address."""
        return str(self.client.address)

    def answered(self) -> None:
        """Take in that it has answered."""
        self.failures, self.down_until_s, self.words = 0, 0.0, ""

    def failed(self, problem: RemoteProblem, now_s: float) -> None:
        """Take in that it has failed; it is asked again after a pause."""
        self.failures += 1
        doubled = 1 << min(self.failures - 1, DOUBLINGS_MAX)
        if problem.trouble is Trouble.BUSY:
            pause_s, wait_s = min(PAUSE_S_MAX, BUSY_PAUSE_S * doubled), problem.retry_after_s
            if wait_s is not None:
                pause_s = min(BUSY_PAUSE_S_MAX, wait_s)
            self.busy_until_s = max(self.busy_until_s, now_s + pause_s)
        else:
            self.down_until_s = now_s + min(PAUSE_S_MAX, PAUSE_S * doubled)
            if not self.words:  # once, until it answers again
                log.warning("model %r: %s %s", self.abilities.model, self.name, problem.words)
            self.words = problem.words


@dataclass(slots=True)
class Endpoints(Generic[A]):
    """The servers of one model."""

    all: Sequence[Endpoint[A]]

    def choose(
        self,
        now_s: float,
        tried: Sequence[Endpoint[A]] = (),
        *,
        left_s: float = math.inf,
        is_last: bool = False,
    ) -> Endpoint[A]:
        """Return the server to ask: one that can take requests, is up, and has the least to do.

        One that has failed this request already comes last among equals. The last try is not for
        such a one while it is down, where another server is only busy and wants requests in time.

        Args:
            now_s: the time, on the clock of the servers' pauses [s].
            tried: servers that have failed this request.
            left_s: until the request's deadline [s].
            is_last: whether no further try follows.
        """

        def rank(one: Endpoint[A]) -> tuple[bool, bool, float, bool, bool, int]:
            wait_s = max(0.0, one.busy_until_s - now_s)
            is_down, has_failed = one.down_until_s > now_s, one in tried
            in_vain = is_last and is_down and has_failed
            return wait_s > left_s, in_vain, wait_s, is_down, has_failed, one.in_flight

        return min(self.all, key=rank)

    def notes(self) -> tuple[str, ...]:
        """Return which servers are down, in words."""
        return tuple(f"{one.name} {one.words}" for one in self.all if one.words)

    def close(self) -> None:
        """Hang up every connection."""
        for one in self.all:
            one.client.close()
