"""How many requests a second a server answers while they come at a rate."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import Busy, InputError
from heddle.core.ports import Clock
from heddle.costs.memory_split import RatePoint
from heddle.runtime.handle import Handle

SATURATING: Final = 32  # requests in flight that tell the most that is answered
ENDED_MIN: Final = 10
LOADS: Final = (0.5, 0.9, 1.3)  # rates that are tried, as shares of that


@dataclass(slots=True)
class Throughput:
    """Measures one server.

    Args:
        submit: admits the request of a number, from 0.
        clock: times it.
        seconds: how long each rate is tried [s].
        seed: draws the arrivals.

    Mutates: `submit` is called with a new number each time.
    Raises:
        InputError: too few requests end in that time.
        HeddleError: a request failed, or the server is full of others.
    """

    submit: Callable[[int], Handle]
    clock: Clock
    seconds: float
    seed: int
    _number: int = 0

    def curve(self) -> tuple[RatePoint, ...]:
        """Return what is answered at several rates around the most that is answered."""
        most = self.most_per_s()
        rates = [load * most for load in LOADS]
        return tuple(RatePoint(rate, self.answered_per_s(rate)) for rate in rates)

    def most_per_s(self) -> float:
        """Return how many requests a second end while as many as may be are in flight."""
        started_s = self.clock.now_s()
        until_s = started_s + self.seconds
        open_handles: list[Handle] = []
        ended = 0
        while self.clock.now_s() < until_s:
            self._fill(open_handles)
            open_handles[0].wait(until_s - self.clock.now_s())
            ended += _answered(open_handles)
            open_handles = [handle for handle in open_handles if not handle.is_done]
        passed_s = self.clock.now_s() - started_s
        _end(open_handles)
        if ended < ENDED_MIN:
            raise InputError(
                f"--seconds: only {ended} requests ended within {self.seconds:g} s, which tells no "
                f"throughput: try each rate for longer"
            )
        return ended / passed_s

    def answered_per_s(self, rate_per_s: float) -> float:
        """Return how many requests a second end while they come at a rate, as Poisson arrivals."""
        draws = random.Random(f"{self.seed} {rate_per_s}")
        pause = threading.Event()
        started_s = self.clock.now_s()
        due_s, handles = started_s, []
        while (due_s := due_s + draws.expovariate(rate_per_s)) < started_s + self.seconds:
            pause.wait(max(0.0, due_s - self.clock.now_s()))
            try:
                handles.append(self._submit())
            except Busy:
                continue  # it came and isn't answered
        pause.wait(max(0.0, started_s + self.seconds - self.clock.now_s()))
        ended = _answered(handles)
        passed_s = self.clock.now_s() - started_s
        _end(handles)
        return ended / passed_s

    def _fill(self, open_handles: list[Handle]) -> None:
        while len(open_handles) < SATURATING:
            try:
                open_handles.append(self._submit())
            except Busy:
                if open_handles:
                    return
                raise

    def _submit(self) -> Handle:
        self._number += 1
        return self.submit(self._number - 1)


def _answered(handles: Sequence[Handle]) -> int:
    """Return how many have their answer; one that failed raises its error."""
    return sum(handle.result() is not None for handle in handles if handle.is_done)


def _end(handles: Sequence[Handle]) -> None:
    for handle in handles:
        if not handle.is_done:
            handle.cancel_soon()
    for handle in handles:
        handle.wait()
