"""Requests fail, and are tried again, no more often than faults explain."""

from collections.abc import Callable
from dataclasses import dataclass

from heddle.core.errors import EngineError
from heddle.runtime.counters import Counters
from heddle.runtime.events import RequestEvent, RequestFailed
from heddle.simulator.checks.check import Check
from heddle.simulator.ticket import Ticket


@dataclass(slots=True)
class BlameCheck(Check):
    """Counts the cycles in which something failed or was tried again, and the faults until then.

    One fault may fail several tasks, but with one frame, and so in one cycle.
    """

    _failed: int = 0
    _cycles: int = 0
    _retries: int = 0

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Count a failure that an engine is to blame for."""
        if isinstance(event, RequestFailed) and isinstance(event.error, EngineError):
            self._failed += 1

    def cycled(self, counters: Counters, harm_done: Callable[[], float], now_s: float) -> None:
        """Compare the cycles with failures with the faults."""
        if not self._failed and counters.retries == self._retries:
            return
        self._failed, self._retries = 0, counters.retries
        self._cycles += 1
        harm = harm_done()
        if self._cycles > harm:
            what = f"something failed {self._cycles} times until {now_s:.6f}"
            self.complain(f"{what}, and {harm:g} fault(s) explain it")
