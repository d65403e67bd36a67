"""How a query's lane is chosen, or that it is refused: WindVE's Algorithm 1, and by finish time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from heddle.core.errors import ConfigError
from heddle.engines.embedding.lane_queue import LaneQueue, Ticket

WINDVE_SLO_S: Final = 1.0  # the first of the two limits of WindVE's evaluation


class AdmissionPolicy(Protocol):
    """Chooses among lanes, the fastest first; reads the books and changes nothing."""

    def choose(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> LaneQueue | None:
        """Return the lane that a ticket goes to, None = busy."""
        ...

    def wait_s(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> float:
        """Return when a refused ticket should come again, from now [s]; inf = it is no use.

        `lanes` are those that would keep its deadline if they were idle.
        """
        ...


@dataclass(frozen=True, slots=True)
class PredictedFinish:
    """Admit where the query, and all that it delays, will be done in time.

    Of several such lanes the one that is done first takes it: the fast one, until its queue is
    longer than what the slow one needs (spill). Where even that takes longer than a full step of
    the fastest lane, no lane will be idle soon, and the fastest of them takes it: as many tokens
    are answered, but of more queries, as short ones find room where most of it is.

    Deviates: WindVE fills the fast queue to its depth first. In open traffic that leaves the
        other lanes idle until it is too late for them; see `heddle bench embed-admission`.
    """

    def choose(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> LaneQueue | None:
        """Return a lane on which no deadline is missed: the one done first, or the fastest."""
        chosen, first_s, fastest = None, math.inf, None
        for lane in lanes:
            finish_s = lane.finish_s(ticket, now_s)
            if finish_s >= first_s or not lane.has_room(ticket):
                continue
            if lane.excess_s(ticket, finish_s, now_s) <= 0:
                chosen, first_s, fastest = lane, finish_s, fastest or lane
        return fastest if first_s - now_s > lanes[0].full_step_s else chosen

    def wait_s(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> float:
        """Return when the first lane will have worked off what is too much.

        Lanes work off a second a second, and a query that comes later has a later deadline.
        """
        first_s = math.inf
        for lane in lanes:
            finish_s = lane.finish_s(ticket, now_s)
            wait_s = finish_s - ticket.deadline_s
            if wait_s <= 0:
                # Where rows or memory are full, or an earlier deadline stands in the way, the
                # step that is running has to end.
                wait_s = min(finish_s - now_s, lane.alone_s(ticket))
            first_s = min(first_s, wait_s)
        return first_s


@dataclass(frozen=True, slots=True)
class Windve:
    """Algorithm 1 as printed: the first lane whose queue isn't full.

    Args:
        depths: queries of each lane, by name: C_max of eqs. 7-10; 0 = the lane is closed (eq. 11).

    Raises: ConfigError: a depth is negative, or a lane that is asked about has none.

    Deviates: the printed algorithm never says when a queue's length goes down. A query counts
        from its admission to its result here; counted until its batch begins, most answers would
        be late near saturation.
    Source: WindVE §IV-B1.
    """

    depths: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, depth in self.depths.items():
            if depth < 0:
                raise ConfigError(f"the depth of embedding lane {name!r} is {depth}: at least 0")

    def choose(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> LaneQueue | None:
        """Return the first lane that holds fewer queries than its depth."""
        for lane in lanes:
            if lane.has_room(ticket) and lane.queries < self._depth(lane):
                return lane
        return None

    def wait_s(self, ticket: Ticket, lanes: Sequence[LaneQueue], now_s: float) -> float:
        """Return the wait until the first lane has finished its queue [s]; inf = all are closed."""
        open_lanes = (lane for lane in lanes if self._depth(lane))
        return min((lane.finish_s(ticket, now_s) - now_s for lane in open_lanes), default=math.inf)

    def _depth(self, lane: LaneQueue) -> int:
        if lane.name not in self.depths:
            raise ConfigError(
                f"depths names {', '.join(self.depths) or 'no lane'}, and not the embedding lane "
                f"{lane.name!r}: give each lane a depth, 0 for a closed one"
            )
        return self.depths[lane.name]
