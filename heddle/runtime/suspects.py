"""Requests that were under way when a lane died: the same ones again may end the next lane.

An input that crashes an engine is sent again by its client, and each time a lane is restarted,
until the lane is given up and the server with it. So who was under way at two deaths is refused.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from heddle.core.errors import InputError
from heddle.runtime.request import Request
from heddle.runtime.supervision import is_death
from heddle.workflow.workflow import Workflow

DEATHS_MAX: Final = 2
REFUSED_S: Final = 60.0
REFUSED_S_MAX: Final = 3600.0
SUSPECTS_MAX: Final = 1024


@dataclass(slots=True)
class _Suspect:
    """At how many deaths a request was under way, the last of them, and until when it's refused."""

    deaths: int = 0
    last: str = ""
    refused_until_s: float = 0.0


@dataclass(slots=True)
class Suspects:
    """Knows the requests that were under way when a lane died, by their workflow and inputs.

    After two deaths a request is refused for a minute; then it may try again, and one more death
    refuses it for twice as long, up to an hour. One that was answered since is none any more.
    Others that were under way beside it are refused for that minute, too: which of them did it
    can't be seen. Remembers at most 1,024, the newest.

    Mutates: every method but `check`.
    """

    _known: OrderedDict[bytes, _Suspect] = field(default_factory=OrderedDict)

    def check(
        self, workflow: Workflow, inputs: Mapping[str, object], tenant: str, now_s: float
    ) -> None:
        """Refuse a request that may end a lane.

        Raises:
            InputError: it was under way at two deaths, the last of them not long ago.
        """
        known = self._known.get(_digest(workflow, inputs, tenant)) if self._known else None
        if known is not None and now_s < known.refused_until_s:
            raise InputError(_words(known, now_s))

    def note(self, request: Request, message: str, now_s: float) -> None:
        """Note that a task of a request has failed, if its lane has died.

        Raises:
            InputError: it was the second death that the request was under way at, or a later one.
        """
        if not is_death(message):
            return
        digest = _digest(request.workflow, request.inputs, request.tenant)
        known = self._known.setdefault(digest, _Suspect())
        if known.last != message:  # several tasks of a request fail of one death
            known.last, known.deaths = message, known.deaths + 1
            self._known.move_to_end(digest)
            while len(self._known) > SUSPECTS_MAX:
                self._known.popitem(last=False)
        if known.deaths >= DEATHS_MAX:
            refused_s = REFUSED_S * 2.0 ** (known.deaths - DEATHS_MAX)
            known.refused_until_s = now_s + min(refused_s, REFUSED_S_MAX)
            raise InputError(_words(known, now_s))

    def clear(self, request: Request) -> None:
        """Suspect a request no longer: it has been answered."""
        if self._known:
            self._known.pop(_digest(request.workflow, request.inputs, request.tenant), None)


def _digest(workflow: Workflow, inputs: Mapping[str, object], tenant: str) -> bytes:
    parts = (workflow.name, tenant, *(f"{slot}={inputs[slot]!r}" for slot in sorted(inputs)))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def _words(known: _Suspect, now_s: float) -> str:
    return (
        f"a lane died {known.deaths} times while this request was under way, so it is refused for "
        f"another {known.refused_until_s - now_s:.0f} s: change its inputs, or look into the "
        f"server's log. The last time: {known.last}"
    )
