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

LATE_SHARE_MAX: Final = 0.1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A prompt; `at` is when it comes if one comes a second on average."""

    at: float
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Served:
    """One run: how many requests came, and the seconds to the first token of those answered.

    `tokens_computed` is the mean of the tokens of their prompts that went through the model. A run
    that can't meet its bound any more is broken off.
    """

    requests: int
    bound_s: float
    first_token_s: tuple[float, ...]
    tokens_computed: float = 0.0

    @property
    def meets_bound(self) -> bool:
        """Whether nine requests in ten had their first token in time."""
        in_time = sum(seconds <= self.bound_s for seconds in self.first_token_s)
        return in_time >= (1 - LATE_SHARE_MAX) * self.requests

    @property
    def median_s(self) -> float:
        """Of the first tokens."""
        return statistics.median(self.first_token_s)


def serve(
    driver: EngineDriver,
    arrivals: Sequence[Arrival],
    rate: float,
    bound_s: float,
    reuse: KvReuse,
    mode: Optimizations,
    answer_tokens: int,
) -> Served:
    """Send requests at a rate [1/s] and answer them; times count from when each was to come."""
    started_s = perf_counter()
    waiting = deque(arrivals)
    due_s: dict[int, float] = {}  # of those without a first token, by the answer's task
    open_tasks: set[int] = set()
    first_token_s: list[float] = []
    computed: list[int] = []
    late_max = LATE_SHARE_MAX * len(arrivals)
    while waiting or open_tasks:
        now_s = perf_counter() - started_s
        while waiting and waiting[0].at / rate <= now_s:
            arrival = waiting.popleft()
            prefill, answer = driver.ask(arrival.prompt, reuse, mode, answer_tokens)
            open_tasks |= {prefill, answer}
            due_s[answer] = arrival.at / rate
        wait_s = waiting[0].at / rate - now_s if waiting else None
        for task, result in driver.step(wait_s):
            if isinstance(result, Progress):
                due = due_s.pop(task, None)
                if due is not None:
                    first_token_s.append(perf_counter() - started_s - due)
                continue
            open_tasks.discard(task)
            if isinstance(result, Prefilled):
                computed.append(_computed(result))
                driver.release(result.handle)
        now_s = perf_counter() - started_s
        late = sum(seconds > bound_s for seconds in first_token_s)
        if late + sum(now_s - due > bound_s for due in due_s.values()) > late_max:
            break
    mean = sum(computed) / max(1, len(computed))
    return Served(len(arrivals), bound_s, tuple(first_token_s), mean)


def _computed(prompt: Prefilled) -> int:
    """Return how many tokens of a prompt were computed, those to select what to compute included.

    A token that is only checked in the first layers counts as one.
    """
    surveyed = 0 if prompt.fused is None else prompt.fused.tokens_surveyed
    return prompt.tokens - prompt.tokens_reused + surveyed
