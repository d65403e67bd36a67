"""Embedding lanes on virtual time: the real queue manager and batch scheduler, replayed steps."""

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from heddle.core.errors import Busy, InputError
from heddle.core.tasks import Priority
from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.costs.lane_cost import LaneCost
from heddle.encoder.batch_scheduler import BatchLimits, BatchScheduler, Row
from heddle.engines.embedding.admission_policies import AdmissionPolicy
from heddle.engines.embedding.lane_queue import LaneQueue, Ticket
from heddle.engines.embedding.queue_manager import QueueManager
from heddle.engines.embedding.token_estimate import TokenEstimate

CHARS_PER_TOKEN = 4.3


@dataclass(frozen=True, slots=True)
class Query:
    """One text: when it comes, how long it is, and what its deadline is [s]."""

    arrival_s: float
    tokens: int
    chars: int
    slo_s: float


@dataclass(frozen=True, slots=True)
class LaneModel:
    """How a lane is replayed: a fit of measured steps, and what they took over the fit."""

    name: str
    cost: BatchCost
    ratios: tuple[float, ...]
    limits: BatchLimits

    def seconds(self, shape: BatchShape, rng: random.Random) -> float:
        """Return what a step of this shape takes [s]."""
        return self.cost.predict_s(shape) * rng.choice(self.ratios)

    def rate(self, tokens: float) -> float:
        """Return how many queries of this length a busy lane answers [1/s]."""
        rows = max(1, int(self.limits.tokens_max // tokens))
        return rows / self.cost.predict_s(BatchShape(rows * tokens, rows * tokens * tokens))


@dataclass(slots=True)
class Tally:
    """What became of the queries. Mutates: the run counts."""

    offered: int = 0
    busy: int = 0
    late: int = 0
    in_time: int = 0
    ended_s: float = 0.0

    @property
    def late_share(self) -> float:
        """Late answers among those admitted."""
        return self.late / max(1, self.late + self.in_time)

    @property
    def goodput(self) -> float:
        """Answers in time for each second."""
        return self.in_time / self.ended_s


@dataclass(slots=True)
class VirtualLane:
    """A lane that steps as long as it has rows."""

    model: LaneModel
    scheduler: BatchScheduler
    running: tuple[Row, ...] = ()
    seconds: float = 0.0

    @property
    def waiting(self) -> int:
        """Queries that no step has begun for."""
        return self.scheduler.rows_waiting


@dataclass(slots=True)
class VirtualService:
    """Lanes behind a queue manager, under open-loop traffic.

    Args:
        models: the lanes, the fastest first.
        policy: built from the lanes, because one of the contenders looks into them.
        heterogeneous: whether there is spill.
        seed: of the replayed times.
    """

    models: Sequence[LaneModel]
    policy: Callable[[Sequence[VirtualLane]], AdmissionPolicy]
    heterogeneous: bool
    seed: int
    tally: Tally = field(default_factory=Tally)
    _lanes: dict[str, VirtualLane] = field(init=False)
    _manager: QueueManager = field(init=False)
    _estimate: TokenEstimate = field(default_factory=lambda: TokenEstimate(256))
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._lanes = {
            model.name: VirtualLane(model, BatchScheduler(model.limits)) for model in self.models
        }
        queues = [
            LaneQueue(
                m.name, LaneCost(m.name, m.cost, margin=1.15), m.limits.tokens_max, rows_max=512
            )
            for m in self.models
        ]
        policy = self.policy(tuple(self._lanes.values()))
        self._manager = QueueManager(queues, policy, self.heterogeneous)

    def run(self, queries: Sequence[Query]) -> Tally:
        """Serve queries to the last answer."""
        order = itertools.count()
        events = [(query.arrival_s, next(order), query) for query in queries]
        heapq.heapify(events)
        asked: dict[int, Query] = {}
        while events:
            now_s, _, what = heapq.heappop(events)
            if isinstance(what, Query):
                idle = self._arrive(what, next(order), asked, now_s)
            else:
                idle = self._end_step(what, asked, now_s)
            if idle is not None and self._begin_step(idle, now_s):
                heapq.heappush(events, (now_s + idle.seconds, next(order), idle))
        self.tally.ended_s = now_s
        return self.tally

    def _arrive(
        self, query: Query, ticket_id: int, asked: dict[int, Query], now_s: float
    ) -> VirtualLane | None:
        """Admit or refuse; return the lane if it was idle."""
        self.tally.offered += 1
        shape = self._estimate.shape(("x" * query.chars,))
        ticket = Ticket(ticket_id, shape, deadline_s=now_s + query.slo_s, arrived_s=now_s)
        try:
            lane = self._lanes[self._manager.admit(ticket, now_s)]
        except (Busy, InputError):
            self.tally.busy += 1
            return None
        asked[ticket_id] = query
        lane.scheduler.add(ticket_id, ("",), Priority.NORMAL, ticket.deadline_s)
        lane.scheduler.tokenized(ticket_id, (range(query.tokens),))
        return None if lane.running else lane

    def _begin_step(self, lane: VirtualLane, now_s: float) -> bool:
        cost = lane.model.cost
        lane.running = lane.scheduler.next_batch(
            tokens_max=math.inf,
            call_tokens=cost.latency_intercept_s / cost.token_s,
            now_s=now_s,
            token_s=cost.token_s,
        )
        if lane.running:
            lane.seconds = lane.model.seconds(_shape(lane.running), self._rng)
        return bool(lane.running)

    def _end_step(self, lane: VirtualLane, asked: dict[int, Query], now_s: float) -> VirtualLane:
        shape = _shape(lane.running)
        real = 0
        for row in lane.running:
            query = asked.pop(row.task_id)
            self._manager.answered(row.task_id, now_s)
            self._estimate.learn(query.chars, 1, query.tokens)
            real += query.tokens
            if now_s > query.arrival_s + query.slo_s:
                self.tally.late += 1
            else:
                self.tally.in_time += 1
        self._estimate.learn_padding(shape.tokens, real)
        self._manager.step_ended(lane.model.name, shape, lane.seconds, now_s)
        return lane


def _shape(rows: Sequence[Row]) -> BatchShape:
    return BatchShape.uniform(len(rows), max(len(row.token_ids) for row in rows))


def traffic(
    rate: float,
    seconds: float,
    slo_s: float,
    rng: random.Random,
    *,
    burst_s: float = 0.0,
) -> list[Query]:
    """Return queries that come as a Poisson process, all the time or in bursts.

    Args:
        rate: queries a second while they come.
        seconds: how long.
        slo_s: each one's time limit [s].
        rng: draws gaps and lengths.
        burst_s: length of a burst and of the pause after it [s]; 0 = no pauses.
    """
    queries: list[Query] = []
    now_s = 0.0
    while True:
        now_s += rng.expovariate(rate)
        if burst_s and int(now_s / burst_s) % 2:
            now_s = (int(now_s / burst_s) + 1) * burst_s + rng.expovariate(rate)
        if now_s >= seconds:
            return queries
        tokens = min(256, max(8, round(rng.lognormvariate(math.log(60), 0.6))))
        chars = max(1, round((tokens - 2) * CHARS_PER_TOKEN * rng.lognormvariate(0, 0.12)))
        queries.append(Query(now_s, tokens, chars, slo_s))
