"""One lane by the queue manager's books: who is on it, and when it will be done."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.core.tasks import Priority
from heddle.costs.batch_cost import BatchShape
from heddle.costs.lane_cost import LaneCost
from heddle.costs.late_guard import LateGuard

CLASSES = len(Priority)
STEP_SMOOTHING = 0.05
TINY_S = 1e-9


class Ticket(NamedTuple):
    """A reservation: the work of one embedding task, from its admission to its result.

    `shape` is what its rows take when padded, by estimate: it is made before they are tokenised.
    `arrived_s` and `deadline_s` are on the queue manager's clock; inf = no deadline. `in_parts`: it
    goes to a lane in parts of a step each, so it needs room for no more than one.
    """

    id: int
    shape: BatchShape
    rows: int = 1
    deadline_s: float = math.inf
    priority: Priority = Priority.NORMAL
    arrived_s: float = 0.0
    in_parts: bool = False


@dataclass(slots=True)
class ClassWork:
    """The tickets of one class on a lane, oldest first, and their sums."""

    tickets: dict[int, Ticket] = field(default_factory=dict)
    tokens: float = 0.0
    squares: float = 0.0

    def add(self, ticket: Ticket) -> None:
        """Put a ticket behind the others."""
        self.tickets[ticket.id] = ticket
        self.tokens += ticket.shape.tokens
        self.squares += ticket.shape.squares

    def remove(self, ticket_id: int) -> Ticket:
        """Take a ticket out; sums of nothing are exactly 0 again."""
        ticket = self.tickets.pop(ticket_id)
        self.tokens = self.tokens - ticket.shape.tokens if self.tickets else 0.0
        self.squares = self.squares - ticket.shape.squares if self.tickets else 0.0
        return ticket


@dataclass(slots=True)
class LaneQueue:
    """What one lane holds, waiting and in flight together.

    Args:
        name: the lane's name.
        cost: what its batches take, followed online.
        batch_tokens_max: padded tokens of one of its steps; busy ones hold somewhat less.
        rows_max: texts that it may hold.
        tokens_max: padded tokens that the memory for waiting texts holds.

    Mutates: `add`, `remove`, `answered`, `step_ended` and `bound_steps` keep the books.
    """

    name: str
    cost: LaneCost
    batch_tokens_max: float
    rows_max: int
    tokens_max: float = math.inf
    is_up: bool = True
    rows: int = 0
    step_tokens: float = 0.0
    step_began_s: float | None = None
    guard: LateGuard = field(default_factory=LateGuard)
    classes: tuple[ClassWork, ...] = field(
        default_factory=lambda: tuple(ClassWork() for _ in range(CLASSES))
    )

    def __post_init__(self) -> None:
        self.step_tokens = self.batch_tokens_max

    @property
    def queries(self) -> int:
        """Tickets that aren't bulk."""
        return sum(len(work.tickets) for work in self.classes[: Priority.BULK])

    @property
    def bulk_tokens(self) -> float:
        """Padded tokens of bulk tickets."""
        return self.classes[Priority.BULK].tokens

    def holds(self, ticket_id: int) -> bool:
        """Whether a ticket is on this lane."""
        return any(ticket_id in work.tickets for work in self.classes)

    def add(self, ticket: Ticket, now_s: float) -> None:
        """Reserve a ticket's place."""
        self.classes[ticket.priority].add(ticket)
        self.rows += ticket.rows
        if self.step_began_s is None:
            self.step_began_s = now_s

    def remove(self, ticket_id: int) -> None:
        """Give a ticket's place back, however it ended."""
        for work in self.classes:
            if ticket_id in work.tickets:
                self.rows -= work.remove(ticket_id).rows
        if not self.rows:
            self.step_began_s = None

    def answered(self, ticket_id: int, now_s: float) -> None:
        """Give back the place of a ticket that has its answer, and learn whether it was late."""
        for work in self.classes[: Priority.BULK]:
            ticket = work.tickets.get(ticket_id)
            if ticket is not None and math.isfinite(ticket.deadline_s):
                patience_s = max(ticket.deadline_s - ticket.arrived_s, TINY_S)
                self.guard.answered((now_s - ticket.arrived_s) / patience_s)
        self.remove(ticket_id)

    def step_ended(self, shape: BatchShape, now_s: float) -> None:
        """Note that a step has ended and, where work is left, the next one has begun."""
        self.step_began_s = now_s if self.rows else None
        if sum(work.tokens for work in self.classes) > self.batch_tokens_max:
            # It had more to choose from than it took: so full is a step of a busy lane.
            self.step_tokens += STEP_SMOOTHING * (shape.tokens - self.step_tokens)

    def bound_steps(self, tokens_max: float) -> None:
        """Take in how many padded tokens a step may hold, by the device's memory or its speed."""
        grown = max(1.0, tokens_max / self.batch_tokens_max)
        self.batch_tokens_max = tokens_max
        self.step_tokens = min(grown * self.step_tokens, tokens_max)

    def has_room(self, ticket: Ticket) -> bool:
        """Whether rows and memory allow a ticket, however long it takes.

        An empty lane takes any: its steps are bounded, however much waits for them.
        """
        if not self.is_up or not self.rows:
            return self.is_up
        rows, tokens = ticket.rows, ticket.shape.tokens
        if ticket.in_parts:
            rows, tokens = 1, min(tokens, self.batch_tokens_max)
        tokens += sum(work.tokens for work in self.classes)
        return self.rows + rows <= self.rows_max and tokens <= self.tokens_max

    def alone_s(self, ticket: Ticket) -> float:
        """Return the time bound of a ticket on this lane when nothing else is there [s]."""
        return self._bound_s(ticket.shape.tokens, ticket.shape.squares)

    @property
    def full_step_s(self) -> float:
        """By when a step as large as it may be would be done, from its beginning [s]."""
        bound_s = self._bound_s(self.batch_tokens_max, 0.0)
        return bound_s * self.guard.stretch / self.cost.caution

    def finish_s(self, ticket: Ticket, now_s: float) -> float:
        """Return by when a new ticket would be done: what is served before it is, then itself."""
        tokens, squares = ticket.shape
        for work in self.classes[: ticket.priority + 1]:
            tokens, squares = tokens + work.tokens, squares + work.squares
        return self._done_s(tokens, squares, now_s)

    def excess_s(self, ticket: Ticket, finish_s: float, now_s: float) -> float:
        """Return by how much a deadline would be missed if a ticket were admitted; <= 0 = none is.

        `finish_s` is when the ticket itself would be done.

        The deadlines are its own, and those of the tickets that it delays: of its own class
        those that may share its step, the newest ones, and all that are less urgent.

        Source: WindVE §III-B, eqs. 7-10, for a lane that isn't empty.
        """
        if finish_s > ticket.deadline_s:
            return finish_s - ticket.deadline_s
        # What is queued was promised by the bound already; of that, what isn't expected is slack.
        expected_s = (finish_s - now_s) / self._care
        excess_s = now_s + expected_s - self._mates_deadline_s(ticket)
        for behind_finish_s, behind_deadline_s in self._behind(ticket, now_s):
            excess_s = max(excess_s, behind_finish_s - behind_deadline_s)
        return excess_s

    def _mates_deadline_s(self, ticket: Ticket) -> float:
        """Return the first deadline among those that may be in one step with a new ticket."""
        tokens, deadline_s = ticket.shape.tokens, math.inf
        for mate in reversed(self.classes[ticket.priority].tickets.values()):
            tokens += mate.shape.tokens
            if tokens > self.batch_tokens_max:
                break
            deadline_s = min(deadline_s, mate.deadline_s)
        return deadline_s

    def _behind(self, ticket: Ticket, now_s: float) -> Iterator[tuple[float, float]]:
        """Yield finish and deadline of what is less urgent, with the ticket before it."""
        tokens, squares = ticket.shape
        for work in self.classes[: ticket.priority + 1]:
            tokens, squares = tokens + work.tokens, squares + work.squares
        for work in self.classes[ticket.priority + 1 : Priority.BULK]:
            for behind in work.tickets.values():
                tokens, squares = tokens + behind.shape.tokens, squares + behind.shape.squares
                yield self._done_s(tokens, squares, now_s), behind.deadline_s

    def _done_s(self, tokens: float, squares: float, now_s: float) -> float:
        """Return by when so much work is done, counting what is being computed now."""
        left_s = self._bound_s(tokens, squares)
        if self.step_began_s is None:
            # Idle: what has made it careful is unlearnt by answers alone, so it must get some.
            return now_s + left_s
        if self.bulk_tokens:  # a step of bulk rows that has begun is not interrupted
            left_s += self._bound_s(min(self.bulk_tokens, self.batch_tokens_max), 0.0)
        # A step that overruns its bound has nothing left by the model: no more is taken off.
        step_s = self._bound_s(min(tokens, self.batch_tokens_max), 0.0)
        left_s -= min(now_s - self.step_began_s, step_s)
        return now_s + left_s * self.guard.stretch / self.cost.caution

    @property
    def _care(self) -> float:
        """Predicted finish over what is expected."""
        return self.cost.margin * self.guard.stretch / self.cost.caution

    def _bound_s(self, tokens: float, squares: float) -> float:
        # Spelt out, as it runs several times in each admission.
        known = self.cost
        cost = known.cost
        batches = math.ceil(tokens / self.step_tokens) or 1
        work_s = tokens * cost.token_s + squares * cost.square_s
        return known.margin * (batches * cost.latency_intercept_s + work_s)
