"""The queue manager: which lane a query goes to, or that it is refused at once. (WindVE §IV-B)"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from heddle.core.errors import Busy, ConfigError, InputError
from heddle.core.tasks import Priority
from heddle.costs.batch_cost import BatchShape
from heddle.engines.embedding.admission_policies import AdmissionPolicy, PredictedFinish
from heddle.engines.embedding.lane_queue import LaneQueue, Ticket

log = logging.getLogger(__name__)
HELD_MAX: Final = 65_536
BULK_STEPS: Final = 2  # of bulk rows on a lane: one that runs, one so that it never starves
WAIT_S_MIN: Final = 0.001


@dataclass(slots=True)
class QueueManager:
    """Keeps the books of every lane and places tickets.

    Args:
        lanes: the fastest first.
        policy: how a lane is chosen.
        heterogeneous: whether queries may spill from the first lane to the others. (§IV-C)

    Checking and reserving are one call, so that a burst can't be let in by checks that don't see
    each other's reservations. Pure: the time is given.

    Mutates: `admit`, `hold`, `place_held`, `end` and the lanes' notes keep the books.
    Raises: ConfigError: there is no lane, or a name twice.
    """

    lanes: Sequence[LaneQueue]
    policy: AdmissionPolicy = field(default_factory=PredictedFinish)
    heterogeneous: bool = True
    _held: tuple[dict[int, Ticket], ...] = field(
        default_factory=lambda: tuple({} for _ in Priority)
    )
    _by_name: Mapping[str, LaneQueue] = field(init=False)

    def __post_init__(self) -> None:
        self._by_name = {lane.name: lane for lane in self.lanes}
        if not self.lanes or len(self._by_name) < len(self.lanes):
            raise ConfigError(
                f"a queue manager needs lanes of different names, got "
                f"{[lane.name for lane in self.lanes]}"
            )

    @property
    def held(self) -> int:
        """Tickets that wait for a lane."""
        return sum(map(len, self._held))

    def admit(self, ticket: Ticket, now_s: float) -> str:
        """Reserve a ticket's place and return its lane.

        Raises:
            Busy: no lane would be done in time; carries when to come again.
            InputError: no lane could, even if it were idle.
        """
        lane = self.policy.choose(ticket, self._usable(), now_s)
        if lane is None:
            raise self._refusal(ticket, now_s)
        lane.add(ticket, now_s)
        return lane.name

    def check(self, ticket: Ticket, now_s: float) -> None:
        """Refuse a ticket that no lane would have done in time; nothing is reserved.

        Raises: as `admit` does.
        """
        if self.policy.choose(ticket, self._usable(), now_s) is None:
            raise self._refusal(ticket, now_s)

    def hold(self, ticket: Ticket) -> None:
        """Let a ticket wait that must not be refused: bulk, or a step of an admitted request.

        Raises:
            Busy: too many wait.
        """
        if self.held >= HELD_MAX:
            raise Busy(f"{HELD_MAX} embedding tasks wait for a lane", wait_s=1.0)
        self._held[ticket.priority][ticket.id] = ticket

    def place_held(self, now_s: float) -> Iterator[tuple[Ticket, str]]:
        """Place the tickets that wait as far as there is room; yields each with its lane.

        Queries go, by class and age, to where they keep all deadlines, and once their own can't
        be kept any more, to the lane that is done first. Bulk tickets fill lanes up to two steps.
        """
        for waiting in self._held[: Priority.BULK]:
            for ticket in list(waiting.values()):
                lane = self._lane_for_held(ticket, now_s)
                if lane is None:
                    break  # those behind it wait too: none overtakes within a class
                yield self._place(waiting, ticket, lane, now_s)
        waiting = self._held[Priority.BULK]
        for lane in self._usable():
            for ticket in list(waiting.values()):
                if not self._takes_bulk(lane, ticket):
                    break
                yield self._place(waiting, ticket, lane, now_s)

    def answered(self, ticket_id: int, now_s: float) -> None:
        """Give the place of a ticket back that its lane has answered; see `end` for the others."""
        for lane in self.lanes:
            if lane.holds(ticket_id):
                lane.answered(ticket_id, now_s)

    def end(self, ticket_id: int) -> None:
        """Give a ticket's place back: it failed or was cancelled, on a lane or waiting."""
        for waiting in self._held:
            waiting.pop(ticket_id, None)
        for lane in self.lanes:
            if lane.holds(ticket_id):
                lane.remove(ticket_id)

    def step_ended(self, lane: str, shape: BatchShape, seconds: float, now_s: float) -> None:
        """Note that a lane has ended a step; call `end` for its finished tickets before this."""
        queue = self._by_name[lane]
        queue.step_ended(shape, now_s)
        news = queue.cost.observe(shape, seconds, now_s) if shape.tokens else None
        if news is not None and news.message:
            log.info("%s", news.message)

    def bound_steps(self, lane: str, tokens_max: float) -> None:
        """Note how many padded tokens a lane's own memory allows a step."""
        self._by_name[lane].bound_steps(tokens_max)

    def set_up(self, lane: str, *, is_up: bool) -> None:
        """Note that a lane is lost, or back."""
        self._by_name[lane].is_up = is_up

    def _usable(self) -> Sequence[LaneQueue]:
        return self.lanes if self.heterogeneous else self.lanes[:1]

    def _refusal(self, ticket: Ticket, now_s: float) -> Busy | InputError:
        patience_s = ticket.deadline_s - now_s
        alone_s = [(lane.alone_s(ticket), lane) for lane in self._usable() if lane.is_up]
        able = [lane for seconds, lane in alone_s if seconds <= patience_s]
        if alone_s and not able:
            opens_at_s = min(seconds for seconds, _ in alone_s)
            return InputError(
                f"deadline_s is {patience_s:.3f} and this embedding alone takes up to "
                f"{opens_at_s:.3f} s on the fastest lane: give at least {opens_at_s:.3f}"
            )
        wait_s = self.policy.wait_s(ticket, able, now_s)
        if able and math.isinf(wait_s):
            closed = ", ".join(lane.name for lane in able)
            return InputError(
                f"no embedding lane takes queries: {closed} closed (depth 0); give a longer SLO"
            )
        wait_s = max(WAIT_S_MIN, wait_s) if math.isfinite(wait_s) else 1.0
        return Busy("the embedding lanes can't answer in time", wait_s=wait_s)

    def _lane_for_held(self, ticket: Ticket, now_s: float) -> LaneQueue | None:
        lane = self.policy.choose(ticket, self._usable(), now_s)
        if lane is not None:
            return lane
        roomy = [lane for lane in self._usable() if lane.has_room(ticket)]
        first = min(roomy, key=lambda lane: lane.finish_s(ticket, now_s), default=None)
        if first is None or first.finish_s(ticket, now_s) <= ticket.deadline_s:
            return None  # it would only make others late; it has time
        return first if not first.queries else None

    def _takes_bulk(self, lane: LaneQueue, ticket: Ticket) -> bool:
        enough = BULK_STEPS * lane.batch_tokens_max
        return lane.has_room(ticket) and lane.bulk_tokens < enough and not lane.queries

    def _place(
        self, waiting: dict[int, Ticket], ticket: Ticket, lane: LaneQueue, now_s: float
    ) -> tuple[Ticket, str]:
        del waiting[ticket.id]
        is_lost = lane.finish_s(ticket, now_s) > ticket.deadline_s
        # What can't be kept any more must not keep others out.
        lane.add(ticket._replace(deadline_s=math.inf) if is_lost else ticket, now_s)
        return ticket, lane.name
