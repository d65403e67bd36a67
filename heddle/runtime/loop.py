"""Drives a Runtime on an asyncio loop: event-driven, no polling."""

import asyncio
import logging
import threading
from dataclasses import dataclass, field

from heddle.core.errors import Cancelled, InternalError
from heddle.core.ports import Clock
from heddle.runtime.runtime import Runtime
from heddle.runtime.turn_end import turn

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RuntimeLoop:
    """Calls `runtime.cycle` when frames arrive, requests come in, or a deadline passes.

    Every method but `wake` belongs to the loop's own thread.
    """

    runtime: Runtime
    clock: Clock
    loop: asyncio.AbstractEventLoop
    is_closed: bool = False
    _is_scheduled: bool = False
    _thread_id: int = 0
    _timer: asyncio.TimerHandle | None = None
    _timer_at_s: float = field(default=float("inf"))

    def start(self) -> None:
        """Listen to every engine; called in the loop's thread."""
        self._thread_id = threading.get_ident()
        for port in self.runtime.ports:
            port.subscribe(self.wake)
        if self.runtime.threads is not None:
            self.runtime.threads.subscribe(self.wake)

    def wake(self) -> None:
        """Ask for a cycle soon; safe from any thread, and cheap when one is due already."""
        if not self._is_scheduled and not self.is_closed:
            self._is_scheduled = True
            # Within the loop's own thread no write to its wake-up pipe is needed.
            if threading.get_ident() == self._thread_id:
                self.loop.call_soon(self._cycle)
            else:
                self.loop.call_soon_threadsafe(self._cycle)

    def close(self) -> None:
        """Cancel what is in flight and stop."""
        self.runtime.fail_all(Cancelled("the server was closed"), self.clock.now_s())
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _cycle(self) -> None:
        self._is_scheduled = False
        if self.is_closed:
            return
        try:
            with turn():
                wake_at_s = self.runtime.cycle(self.clock.now_s())
        except Exception as error:
            # No request may wait for its deadline because of a bug in the runtime itself.
            log.exception("a scheduling cycle broke an invariant")
            self.runtime.fail_all(
                InternalError(f"{type(error).__name__}: {error}"), self.clock.now_s()
            )
            return
        if wake_at_s < self._timer_at_s:
            self._arm(wake_at_s)

    def _arm(self, wake_at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = wake_at_s
        delay_s = max(0.0, wake_at_s - self.clock.now_s())
        self._timer = self.loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at_s = float("inf")
        self.wake()
