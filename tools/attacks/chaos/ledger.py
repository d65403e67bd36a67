"""Every request of a campaign and how it ended."""

import math
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tools.attacks.chaos.told import LONG_TOKENS, Told, reset_by_stop

SHOWN_MAX: Final = 20


@dataclass(slots=True)
class Ledger:
    """Counts of several threads.

    Attributes:
        requests: those that a server took or should have taken.
        long_answers: answers of at least 200 tokens.
        answers_resumed: answers that went on in another process after their begin was shown.
        failed: requests that ended with an error that says so.
        lost: requests without an end, and documents that were confirmed and are gone.
        answered_twice: requests with more than one end.
        shown_twice: streams whose text isn't their answer's.
        cut: requests that were under way when their server was killed; nothing can answer them.
        statuses: replies by status.
        problems: the first of what went wrong.
    """

    requests: int = 0
    long_answers: int = 0
    answers_resumed: int = 0
    failed: int = 0
    lost: int = 0
    answered_twice: int = 0
    shown_twice: int = 0
    cut: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _killed_s: float = -math.inf
    _stopping_s: float = math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def server_stops(self, now_s: float) -> None:
        """From now on the server may refuse connections, until `server_starts`."""
        self._stopping_s = now_s

    def server_starts(self) -> None:
        """A server takes requests again."""
        self._stopping_s = math.inf

    def server_killed(self, now_s: float) -> None:
        """What is under way now can't be answered by anything."""
        self._killed_s = now_s

    def add(self, what: str, told: Told, begun_s: float, ended_s: float) -> None:
        """Note a request that ended at `ended_s`."""
        with self._lock:
            if begun_s >= self._stopping_s and reset_by_stop(told):
                return  # never taken: the client may ask elsewhere
            self.requests += 1
            self.statuses[told.status] += 1
            if not told.ends and begun_s <= self._killed_s <= ended_s:
                self.cut += 1
                return
            self._judge(what, told)

    def lose(self, what: str) -> None:
        """Note that something confirmed is gone."""
        with self._lock:
            self.lost += 1
            self._note(what)

    def wrong(self, what: str) -> None:
        """Note something else that should not be."""
        with self._lock:
            self._note(what)

    def _judge(self, what: str, told: Told) -> None:
        self.failed += told.status >= 500 or (told.is_stream and told.answer is None)
        self.long_answers += told.tokens >= LONG_TOKENS
        if not told.ends:
            self.lost += 1
            self._note(f"lost: {what}: {told.failure or 'no end'}")
        if told.ends > 1:
            self.answered_twice += 1
            self._note(f"answered twice: {what}")
        if told.is_shown_twice:
            self.shown_twice += 1
            self._note(f"shown twice: {what}: {''.join(told.shown)!r} of {told.answer!r}"[:500])
        if told.answer is not None:
            self.answers_resumed += bool(told.answer["receipt"].get("resumed", 0))

    def _note(self, problem: str) -> None:
        if len(self.problems) < SHOWN_MAX:
            self.problems.append(problem)
