"""A vector pool on virtual time: the real scheduler and control loop, searches that only last."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from heddle.engines.vector.pool.feedback import EVERY_S, PoolTargets, adjusted
from heddle.engines.vector.pool.meters import PoolMeters
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import PoolRequest, Stage, latest_end_s
from heddle.engines.vector.pool.scheduler import PoolScheduler
from heddle.simulator.timeline import Timeline

WORK: Final = 1.0  # of every search: all ask for the same
OnEnd = Callable[[float, float], None]
"""Hears of a search's end: how long it waited for its first slot, and how long it took [s]."""


@dataclass(slots=True)
class TimedSearch:
    """A search in the pool. Mutates: `left_s` shrinks as it runs; `run` counts its runs."""

    request: PoolRequest
    left_s: float
    on_end: OnEnd
    run: int = 0
    running_since_s: float | None = None
    started_s: float | None = None


class PoolDevice:
    """Slots in which searches run side by side, each for as long as it was said to last.

    Args:
        timeline: virtual time.
        slots: searches at once.
        policy: how the two stages share them.
        prefill_slo_s: from a prefill search's arrival to its end [s].
        alone_s: how long a search lasts, before any has ended [s].
        kv_link_use: of the link from prefill to decode, in [0, 1], as the model has it.
    """

    def __init__(
        self,
        timeline: Timeline,
        slots: int,
        policy: PoolPolicy,
        *,
        prefill_slo_s: float,
        alone_s: float,
        kv_link_use: Callable[[], float],
    ) -> None:
        self.scheduler = PoolScheduler(slots, policy)
        self._timeline, self._kv_link_use = timeline, kv_link_use
        self._slo_s = prefill_slo_s
        self._targets = PoolTargets(prefill_wait_s=prefill_slo_s / 2)
        self.meters = PoolMeters(alone_s)
        self._searches: dict[int, TimedSearch] = {}
        self._count = 0
        self._steered_s = 0.0
        self._wake_at_s = math.inf  # the one decision that is planned
        self.busy_s = 0.0

    def search(self, stage: Stage, service_s: float, on_end: OnEnd) -> None:
        """Take a search in that lasts `service_s` once it runs."""
        now_s = self._timeline.now_s()
        self._count += 1
        ends_by_s = latest_end_s(stage, now_s, self._slo_s)
        alone_s = self.meters.alone_s(stage, WORK)
        request = PoolRequest(self._count, stage, now_s, ends_by_s, alone_s)
        self._searches[self._count] = TimedSearch(request, service_s, on_end)
        self.scheduler.add(request)
        self._decide()

    def _decide(self) -> None:
        now_s = self._timeline.now_s()
        self._steer(now_s)
        decision = self.scheduler.decide(now_s)
        for task_id in decision.park:
            self._stop(self._searches[task_id], now_s)
        for task_id in (*decision.resume, *decision.start):
            self._start(self._searches[task_id], now_s)
        if now_s < decision.wake_at_s < self._wake_at_s:
            self._wake_at_s = decision.wake_at_s
            self._timeline.at(decision.wake_at_s, self._wake)

    def _wake(self) -> None:
        if self._timeline.now_s() >= self._wake_at_s:  # else an earlier one came between
            self._wake_at_s = math.inf
            self._decide()

    def _steer(self, now_s: float) -> None:
        is_adaptive = self.scheduler.policy is PoolPolicy.ADAPTIVE
        if is_adaptive and now_s >= self._steered_s + EVERY_S:
            signals = self.meters.take_signals(self._kv_link_use())
            self.scheduler.knobs = adjusted(self.scheduler.knobs, signals, self._targets)
            self._steered_s = now_s

    def _start(self, search: TimedSearch, now_s: float) -> None:
        if search.started_s is None:
            search.started_s = now_s
            self.meters.waited(search.request.stage, now_s - search.request.arrived_s)
        search.running_since_s = now_s
        search.run += 1
        run = search.run
        self._timeline.after(search.left_s, lambda: self._end(search, run))

    def _stop(self, search: TimedSearch, now_s: float) -> None:
        assert search.running_since_s is not None, "a parked search did not run"
        search.left_s = max(0.0, search.left_s - (now_s - search.running_since_s))
        self.busy_s += now_s - search.running_since_s
        search.running_since_s = None

    def _end(self, search: TimedSearch, run: int) -> None:
        if search.running_since_s is None or search.run != run:
            return  # it was parked meanwhile
        now_s, request = self._timeline.now_s(), search.request
        self.busy_s += now_s - search.running_since_s
        del self._searches[request.task_id]
        self.scheduler.remove(request.task_id)
        assert search.started_s is not None, "a search ends that never ran"
        if search.run == 1:
            self.meters.ran(request.stage, WORK, now_s - search.started_s)
        search.on_end(search.started_s - request.arrived_s, now_s - request.arrived_s)
        self._decide()
