"""A server on virtual time: real runtime, engines that cost what they are said to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from heddle.core.errors import InternalError
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.receipt import Receipt
from heddle.runtime.runtime import Runtime
from heddle.simulator.timeline import Timeline
from heddle.workflow.workflow import Workflow

DEADLINE_S: Final = 1e6  # no request of these ends before its answer


@dataclass(frozen=True, slots=True)
class VirtualAsk:
    """A request: its workflow and inputs, and when it comes, from the block's start [s]."""

    workflow: Workflow
    inputs: Mapping[str, object]
    at_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """What became of an ask: how long it took and when that was [s], what was done and written."""

    seconds: float
    ended_s: float
    receipt: Receipt
    text: str


@dataclass(slots=True)
class ClockedServer:
    """Serves blocks of asks, one after the other, by a runtime whose clock is a timeline.

    Args:
        timeline: the clock.
        runtime: what serves.
        router_s: how long a cycle of the runtime takes, before its commands leave [s].
        may_fail: whether a request that fails is counted, in `failed`; else it ends the run.

    Mutates: both move on with each block; `cycles` counts those of the runtime.
    """

    timeline: Timeline
    runtime: Runtime
    router_s: float = 0.0
    may_fail: bool = False
    failed: int = 0
    cycles: int = 0
    _is_woken: bool = False
    _timer_at_s: float = float("inf")
    _is_busy: bool = False

    def __post_init__(self) -> None:
        for port in self.runtime.ports:
            port.subscribe(self._wake)

    def serve(self, asks: Sequence[VirtualAsk]) -> list[Served]:
        """Answer asks as they come; return what became of each that was answered.

        Raises:
            InternalError: one failed, or was never answered.
        """
        served: dict[int, Served] = {}
        started_s = self.timeline.now_s()
        for number, ask in enumerate(asks):
            take = partial(served.__setitem__, number)
            self.timeline.at(started_s + ask.at_s, partial(self._submit, ask, take))
        failed = self.failed
        self._run(lambda: len(asks) - len(served) - (self.failed - failed))
        return [served[number] for number in sorted(served)]

    def serve_in_turn(self, asks: Sequence[VirtualAsk], in_flight: int) -> list[Served]:
        """Answer asks, `in_flight` at a time; return them as they ended. Arrivals don't count.

        Raises:
            InternalError: one failed, or was never answered.
        """
        ended: list[Served] = []
        left = iter(asks)

        def begin() -> None:
            ask = next(left, None)
            if ask is not None:
                self._submit(ask, take)

        def take(served: Served) -> None:
            ended.append(served)
            self.timeline.after(0.0, begin)

        for _ in range(in_flight):
            begin()
        self._run(lambda: len(asks) - len(ended))
        return ended

    def _submit(self, ask: VirtualAsk, take: Callable[[Served], None]) -> None:
        came_s = self.timeline.now_s()

        def hear(event: RequestEvent) -> None:
            now_s = self.timeline.now_s()
            if isinstance(event, RequestFailed) and self.may_fail:
                self.failed += 1
            elif isinstance(event, RequestFailed):
                raise InternalError(
                    f"{ask.workflow.name} on the virtual clock failed: {event.error}"
                )
            if isinstance(event, Answer):
                take(Served(now_s - came_s, now_s, event.receipt, event.text))

        self.runtime.submit(ask.workflow, ask.inputs, hear, now_s=came_s, deadline_s=DEADLINE_S)
        self._wake()

    def _run(self, left: Callable[[], int]) -> None:
        """Let time pass until none is left."""
        while left():
            if self._is_woken and not self._is_busy:
                self._cycle()
            elif not self.timeline.step():
                raise InternalError(f"{left()} asks were never answered")

    def _wake(self) -> None:
        self._is_woken = True

    def _cycle(self) -> None:
        self._is_woken = False
        if self.router_s:
            self._is_busy = True
            self.timeline.after(self.router_s, self._decide)
        else:
            self._decide()

    def _decide(self) -> None:
        self._is_busy = False
        self.cycles += 1
        wake_at_s = self.runtime.cycle(self.timeline.now_s())
        if wake_at_s < min(self._timer_at_s, DEADLINE_S):
            self._timer_at_s = wake_at_s
            self.timeline.at(wake_at_s, self._ring)

    def _ring(self) -> None:
        self._timer_at_s = float("inf")
        self._wake()
