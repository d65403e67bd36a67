"""Which searches of the two stages run: the pool's slots, queues and parked searches. Pure."""

import math
from collections.abc import Mapping

from heddle.core.gauges import POOL_FREE, POOL_RUNNING, POOL_WAITING
from heddle.engines.vector.pool.limits import PoolKnobs
from heddle.engines.vector.pool.lookahead import latest_start_s, own_latest_start_s
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.pool.requests import PoolDecision, PoolRequest, Stage

DUE = 0.5  # owed to prefill from which the next contested slot is its


class PoolScheduler:
    """Shares a number of slots between prefill and decode searches.

    Prefill searches are ordered by slack = deadline - now - predicted time, decode searches as
    they came. While both wait, prefill gets its reserved share of the free slots; what a stage
    can't use is the other's at once. When one of the waiting prefill searches would be late
    although they all began now (`latest_start_s`), the first takes a slot before its share, and
    parks the decode search that started last where none is free. A decode search beyond its own,
    far deadline takes a slot before its share too. Where both are late the share decides: nothing
    starves.

    Args:
        slots: searches that run at once; as many may be parked.
        policy: how slots are shared.
        knobs: share and flush timeouts; other policies than ADAPTIVE have no share.

    Source: Trinity §3.3.
    Deviates: the paper reserves ceil(r x free slots) each time. Where searches leave one by one,
        one slot is free at a time and that is prefill first; here the fraction is carried over.
    """

    def __init__(
        self, slots: int, policy: PoolPolicy = PoolPolicy.ADAPTIVE, knobs: PoolKnobs | None = None
    ) -> None:
        self.slots, self.policy = slots, policy
        self.knobs = knobs or PoolKnobs()
        self._owed = 0.0
        self._prefill: dict[int, PoolRequest] = {}
        self._decode: dict[int, PoolRequest] = {}
        self._parked: dict[int, PoolRequest] = {}
        self._running: dict[int, PoolRequest] = {}
        self._started_s: dict[int, float] = {}  # when a search last began to run

    @property
    def free(self) -> int:
        """Slots without a search."""
        return self.slots - len(self._running)

    @property
    def running(self) -> int:
        """Searches that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Searches that have not started, and those that are parked."""
        return len(self._prefill) + len(self._decode) + len(self._parked)

    def gauges(self) -> Mapping[str, float]:
        """Return how full the pool is, by the names of `core.gauges`."""
        return {POOL_RUNNING: self.running, POOL_FREE: self.free, POOL_WAITING: self.waiting}

    def add(self, request: PoolRequest) -> None:
        """Queue a search."""
        queue = self._prefill if request.stage is Stage.PREFILL else self._decode
        queue[request.task_id] = request

    def remove(self, task_id: int) -> PoolRequest | None:
        """Forget a search that has ended or was taken back; return it if it was here."""
        for place in (self._running, self._prefill, self._decode, self._parked):
            if task_id in place:
                self._started_s.pop(task_id, None)
                return place.pop(task_id)
        return None

    def decide(self, now_s: float) -> PoolDecision:
        """Fill the free slots, and take slots back for prefill searches that would be late.

        Mutates: who runs, waits and is parked, as the answer says.
        """
        flush_at_s = self._flush_at_s(now_s)
        if self._running and self.waiting < self.free and now_s < flush_at_s:
            return PoolDecision((), (), (), flush_at_s)
        start: list[int] = []
        park: list[int] = []
        resume: list[int] = []
        while (request := self._next(now_s, {*start, *resume}, park)) is not None:
            (resume if self._parked.pop(request.task_id, None) else start).append(request.task_id)
            queue = self._prefill if request.stage is Stage.PREFILL else self._decode
            queue.pop(request.task_id, None)
            self._running[request.task_id] = request
            self._started_s[request.task_id] = now_s
        return PoolDecision(tuple(start), tuple(park), tuple(resume), self._urgent_at_s(now_s))

    def _next(self, now_s: float, chosen: set[int], park: list[int]) -> PoolRequest | None:
        """Return what gets a slot next; room is made by parking where that is due.

        Mutates: what is owed; adds to `park` whom it parked, never one of those just chosen.
        """
        prefill = min(self._prefill.values(), key=own_latest_start_s, default=None)
        if self.free:
            return self._choose(prefill, self._first_decode(park), now_s)
        if prefill is None or self.policy is not PoolPolicy.ADAPTIVE:
            return None
        if self._urgent_at_s(now_s) > now_s or len(self._parked) == self.slots:
            return None
        running = (r for r in self._running.values() if r.task_id not in chosen)
        victims = [request for request in running if _may_be_parked(request, now_s)]
        if not victims:
            return None
        victim = self._running.pop(victims[-1].task_id)
        self._parked[victim.task_id] = victim
        park.append(victim.task_id)
        return prefill

    def _first_decode(self, just_parked: list[int]) -> PoolRequest | None:
        """Return the decode search that came first, of those parked earlier before others."""
        parked = (r for r in self._parked.values() if r.task_id not in just_parked)
        first = min(parked, key=_arrived_s, default=None)
        return first or next(iter(self._decode.values()), None)

    def _choose(
        self, prefill: PoolRequest | None, decode: PoolRequest | None, now_s: float
    ) -> PoolRequest | None:
        """Return which of the two gets a free slot."""
        if prefill is None or decode is None:
            return prefill or decode
        match self.policy:
            case PoolPolicy.PREFILL_FIRST:
                return prefill
            case PoolPolicy.DECODE_FIRST:
                return decode
            case PoolPolicy.FIFO:
                return min(prefill, decode, key=_arrived_s)
            case PoolPolicy.ADAPTIVE:
                is_urgent = self._urgent_at_s(now_s) <= now_s
                if is_urgent != (decode.deadline_s <= now_s):
                    return prefill if is_urgent else decode
                self._owed += self.knobs.share
                if self._owed < DUE:
                    return decode
                self._owed -= 1.0
                return prefill

    def _flush_at_s(self, now_s: float) -> float:
        """Return until when searches may wait for more to start with them."""
        if self._parked:
            return now_s
        prefill_s = min(map(_arrived_s, self._prefill.values()), default=math.inf)
        decode_s = min(map(_arrived_s, self._decode.values()), default=math.inf)
        return min(
            prefill_s + self.knobs.prefill_wait_s_max,
            decode_s + self.knobs.wait_s_max,
            self._urgent_at_s(now_s),
        )

    def _urgent_at_s(self, now_s: float) -> float:
        """Return when a waiting prefill search's slack turns negative, those before it counted."""
        if self.policy is not PoolPolicy.ADAPTIVE or not self._prefill:
            return math.inf
        taken_until_s = [
            self._started_s[task_id] + request.alone_s
            for task_id, request in self._running.items()
            if not _may_be_parked(request, now_s)
        ]
        return latest_start_s(now_s, self._prefill.values(), taken_until_s, self.slots)


def _arrived_s(request: PoolRequest) -> float:
    return request.arrived_s


def _may_be_parked(request: PoolRequest, now_s: float) -> bool:
    return request.stage is Stage.DECODE and request.deadline_s > now_s
