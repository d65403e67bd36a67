"""Requests that come when they come, whether or not the engine keeps up with them."""

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from benchmarks.support.engine_driver import EngineDriver, Prompt
from heddle.core.frames import Progress
from heddle.core.kv_reuse import KvReuse
from heddle.core.results import Prefilled
from heddle.core.tasks import Optimizations

ONE_LATE_IN: Final = 10  # requests one may be late


@dataclass(frozen=True, slots=True)
class Arrival:
    """A prompt; `at` is when it comes if one comes a second on average."""

    at: float
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Served:
    """One run: how many requests were to come, and the seconds to the first tokens that were seen.

    `tokens_computed` is the mean of the tokens of the prompts seen that went through the model.
    """

    requests: int
    bound_s: float
    first_token_s: tuple[float, ...]
    tokens_computed: float = 0.0

    @property
    def meets_bound(self) -> bool:
        """Whether all but those that may be late had their first token in time."""
        in_time = sum(seconds <= self.bound_s for seconds in self.first_token_s)
        return in_time >= self.requests - late_max(self.requests)

    @property
    def median_s(self) -> float:
        """Of the first tokens."""
        return statistics.median(self.first_token_s)


def late_max(requests: int) -> int:
    """Return how many of `requests` requests may be late: one in ten, rounded up.

    Where few come, one that is late by chance decides nothing.
    """
    return -(-requests // ONE_LATE_IN)


def serve(
    driver: EngineDriver,
    arrivals: Sequence[Arrival],
    rate: float,
    bound_s: float,
    reuse: KvReuse,
    mode: Optimizations,
    answer_tokens: int,
) -> Served:
    """Send requests at a rate [1/s] and answer them; times count from when each was to come.

    It ends as soon as nothing to come could change whether the bound is met: once more are late
    than may be, or all but those that may be late were in time.
    """
    started_s = perf_counter()
    waiting = deque(arrivals)
    due_s: dict[int, float] = {}  # of those without a first token, by the answer's task
    first_token_s: list[float] = []
    computed: list[int] = []
    spare = late_max(len(arrivals))
    in_time = late = 0
    while late <= spare and in_time < len(arrivals) - spare:
        now_s = perf_counter() - started_s
        while waiting and waiting[0].at / rate <= now_s:
            arrival = waiting.popleft()
            _, answer = driver.ask(arrival.prompt, reuse, mode, answer_tokens)
            due_s[answer] = arrival.at / rate
        wait_s = waiting[0].at / rate - now_s if waiting else bound_s
        for task, result in driver.step(wait_s):
            if isinstance(result, Progress) and task in due_s:
                first_token_s.append(perf_counter() - started_s - due_s.pop(task))
            elif isinstance(result, Prefilled):
                computed.append(result.tokens_computed + result.tokens_surveyed)
                driver.release(result.handle)
        now_s = perf_counter() - started_s
        in_time = sum(seconds <= bound_s for seconds in first_token_s)
        late = len(first_token_s) - in_time
        late += sum(now_s - due > bound_s for due in due_s.values())
    mean = sum(computed) / max(1, len(computed))
    return Served(len(arrivals), bound_s, tuple(first_token_s), mean)
