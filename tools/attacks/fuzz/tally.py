"""What became of all requests of one server."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tools.attacks.exchange import Reply, is_server_error

FINDINGS_KEPT: Final = 20
SHOWN_BYTES: Final = 2_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A reply that should not be, or none: the request as it was sent, and what came."""

    what: str
    sent: str
    came: str


@dataclass(slots=True)
class Tally:
    """Counts of several threads.

    Attributes:
        requests: all that were sent, each connection of raw bytes as one.
        accepted: those with a 2xx.
        refused_good: those of the good ones that were refused for what they ask.
        undescribed: replies that aren't as /openapi.json says.
        server_errors: replies that are the server's own failure.
        crashes: requests without an end, and processes that ended.
        statuses: replies by status; 0 = none came.
        routes: accepted requests by route.
        workflows: accepted requests by workflow.
        findings: the first of what went wrong.
    """

    requests: int = 0
    accepted: int = 0
    refused_good: int = 0
    undescribed: int = 0
    server_errors: int = 0
    crashes: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    workflows: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, sent: bytes, reply: Reply, route: str = "", workflow: str = "") -> None:
        """Count a reply; `sent` is the request's body, or all of a raw one."""
        with self._lock:
            self.requests += 1
            self.statuses[reply.status] += 1
            if reply.is_accepted:
                self.accepted += 1
                self.routes.update([route] if route else [])
                self.workflows.update([workflow] if workflow else [])
            if is_server_error(sent, reply):
                self.server_errors += 1
                self._find(f"{reply.status} of {route or 'raw bytes'}", sent, reply.body)

    def add_refused_good(self, sent: bytes, reply: Reply, route: str) -> None:
        """Note that a request which must be accepted wasn't."""
        with self._lock:
            self.refused_good += 1
            self._find(f"refused: {reply.status} of {route}", sent, reply.body)

    def add_undescribed(self, sent: bytes, reply: Reply, what: str) -> None:
        """Note a reply that isn't as the server's own document says."""
        with self._lock:
            self.undescribed += 1
            self._find(f"not as described: {reply.status} of {what}", sent, reply.body)

    def add_unanswered(self, sent: bytes, why: str, *, is_crash: bool) -> None:
        """Count a request that got no reply."""
        with self._lock:
            self.requests += 1
            self.statuses[0] += 1
            if is_crash:
                self.crashes += 1
                self._find(f"no answer: {why}", sent, b"")

    def add_crash(self, what: str, log: str) -> None:
        """Count something that ended, or stayed, and should not have."""
        with self._lock:
            self.crashes += 1
            self._find(what, b"", log[-SHOWN_BYTES:].encode())

    def _find(self, what: str, sent: bytes, came: bytes) -> None:
        if len(self.findings) < FINDINGS_KEPT:
            shown = (repr(text[:SHOWN_BYTES])[2:-1] for text in (sent, came))
            self.findings.append(Finding(what, *shown))
