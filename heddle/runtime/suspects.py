"""Requests that were under way when a lane died: one of them may have ended it. (ADR 56)

An input that crashes an engine is sent again by its client, and each time a lane is restarted,
until the lane is given up and the server with it. What was under way beside it looks the
same, so a suspect is tried by itself (`Quarantine`) before it is refused.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from heddle.core.errors import InputError
from heddle.runtime.request import Request
from heddle.runtime.supervision import is_crash, is_death
from heddle.workflow.workflow import Workflow

SUSPECTED_AT: Final = 4  # points: a crash counts 2, a loss that may come from outside 1
LOSSES_ALONE_MAX: Final = 4
REFUSED_S: Final = 60.0
REFUSED_S_MAX: Final = 3600.0
SUSPECTS_MAX: Final = 1024
DEATHS_MAX: Final = 64  # whose victims are remembered, while their failures still come in


@dataclass(slots=True)
class _Suspect:
    """What a request was under way at, and until when it is refused.

    It was under way at `deaths` of lanes, of which `crashes` were no loss from outside, and was the
    only one at `losses_alone` of these losses. `last` says in words how the last lane died.
    """

    deaths: int = 0
    crashes: int = 0
    losses_alone: int = 0
    refusals: int = 0
    last: str = ""
    refused_until_s: float = 0.0

    @property
    def points(self) -> int:
        return self.deaths + self.crashes

    @property
    def must_be_alone(self) -> bool:
        return self.refusals > 0 or self.points > SUSPECTED_AT


@dataclass(slots=True)
class Suspects:
    """Knows the requests that were under way when a lane died, by their workflow and inputs.

    A crash counts 2 points for each of them, another loss of a lane 1: that may come from outside,
    as with SIGKILL, a frozen process or a lost node. With 4 points a request is a suspect. It is
    refused for a minute once it has crashed a lane with nothing else under way on the server, or
    was so at the fourth other loss. Then it may try again, by itself; one more such death
    refuses it for twice as long, up to an hour. An answer clears it. Remembers at most 1,024
    requests, the newest.

    Mutates: `witness` and `clear`.
    """

    _known: OrderedDict[bytes, _Suspect] = field(default_factory=OrderedDict)
    _suspected: set[bytes] = field(default_factory=set)
    _victims: OrderedDict[str, set[bytes]] = field(default_factory=OrderedDict)  # by message

    @property
    def are_any(self) -> bool:
        """Whether any request is suspected."""
        return bool(self._suspected)

    def check(
        self, workflow: Workflow, inputs: Mapping[str, object], tenant: str, now_s: float
    ) -> None:
        """Refuse a request that may end a lane.

        Raises:
            InputError: it has ended lanes, the last of them not long ago.
        """
        if self._suspected:
            self._check(_digest(workflow, inputs, tenant), now_s)

    def check_open(self, request: Request, now_s: float) -> None:
        """Refuse a request that is in flight.

        Raises:
            InputError: as `check`.
        """
        if self._suspected:
            self._check(digest_of(request), now_s)

    def _check(self, digest: bytes, now_s: float) -> None:
        known = self._known.get(digest)
        if known is not None and now_s < known.refused_until_s:
            raise InputError(_words(known, now_s))

    def suspected(self, request: Request) -> bytes | None:
        """Return what a suspect is known by; None = the request is none."""
        if not self._suspected:
            return None
        digest = digest_of(request)
        return digest if digest in self._suspected else None

    def must_be_alone(self, digest: bytes) -> bool:
        """Whether a suspect may only run while nothing else does."""
        return self._known[digest].must_be_alone

    def witness(
        self, request: Request, message: str, others: Iterable[Request], now_s: float
    ) -> None:
        """Note that a task of a request has failed, if its lane has died.

        Args:
            request: may have ended before.
            message: of the failure.
            others: the requests that have tasks under way now.
            now_s: the time.
        """
        if not is_death(message):
            return
        digest = digest_of(request)
        victims = self._victims.setdefault(message, set())
        if digest in victims:  # several tasks of a request fail of one death
            return
        victims.add(digest)
        while len(self._victims) > DEATHS_MAX:
            self._victims.popitem(last=False)
        is_alone = len(victims) == 1 and all(digest_of(other) == digest for other in others)
        self._count(digest, message, now_s, is_alone=is_alone)

    def _count(self, digest: bytes, message: str, now_s: float, *, is_alone: bool) -> None:
        known = self._known.setdefault(digest, _Suspect())
        self._known.move_to_end(digest)
        has_crashed = is_crash(message)
        known.last = message
        known.deaths += 1
        known.crashes += has_crashed
        known.losses_alone += is_alone and not has_crashed
        if known.points >= SUSPECTED_AT:
            self._suspected.add(digest)
            if is_alone and (has_crashed or known.losses_alone >= LOSSES_ALONE_MAX):
                refused_s = REFUSED_S * 2.0**known.refusals
                known.refusals += 1
                known.refused_until_s = now_s + min(refused_s, REFUSED_S_MAX)
        while len(self._known) > SUSPECTS_MAX:
            oldest, _ = self._known.popitem(last=False)
            self._suspected.discard(oldest)

    def clear(self, request: Request) -> None:
        """Suspect a request no longer: it has been answered."""
        if self._known:
            digest = digest_of(request)
            self._known.pop(digest, None)
            self._suspected.discard(digest)


def digest_of(request: Request) -> bytes:
    """Return what a request is known by.

    Mutates: the request remembers it.
    """
    if not request.digest:
        request.digest = _digest(request.workflow, request.inputs, request.tenant)
    return request.digest


def _digest(workflow: Workflow, inputs: Mapping[str, object], tenant: str) -> bytes:
    parts = (workflow.name, tenant, *(f"{slot}={inputs[slot]!r}" for slot in sorted(inputs)))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def _words(known: _Suspect, now_s: float) -> str:
    return (
        f"a lane died {known.deaths} times while this request was under way, the last time with "
        f"no other one, so it is refused for another {known.refused_until_s - now_s:.0f} s: change "
        f"its inputs, or look into the server's log. The last time: {known.last}"
    )
