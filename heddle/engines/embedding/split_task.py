"""An embedding of many texts in parts of one step each, so that others are served in between."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from heddle.core.frames import Cancelled, Done, Event, Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.results import Vectors
from heddle.core.tasks import Task


@dataclass(slots=True)
class SplitTask:
    """A task whose texts are embedded part by part; its end is known once each part has ended.

    Args:
        task: the whole task.
        deadline_s: on the pool's clock.
        parts: its texts in portions, in their order.

    Mutates: `next_part` and `take` keep count of the parts.
    """

    task: Task
    deadline_s: float
    parts: Sequence[EmbedPayload]
    _waiting: deque[int] = field(init=False)
    _begun: dict[int, int] = field(default_factory=dict)  # part by its task's id
    _found: dict[int, Vectors] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waiting = deque(range(len(self.parts)))

    @property
    def begun(self) -> tuple[int, ...]:
        """The tasks of the parts that have begun and not ended."""
        return tuple(self._begun)

    @property
    def rows_waiting(self) -> int:
        """Texts of the parts that have not begun."""
        return sum(self.parts[number].rows for number in self._waiting)

    def next_part(self, part_id: int) -> EmbedPayload | None:
        """Begin the next part under this task id; None = all have begun."""
        if not self._waiting:
            return None
        number = self._waiting.popleft()
        self._begun[part_id] = number
        return self.parts[number]

    def take(self, event: Event) -> Event | None:
        """Take in how a part ended; return how the whole task did, None = it goes on.

        The first part that fails ends the task.
        """
        number, task_id = self._begun.pop(event.task_id), self.task.task_id
        match event:
            case Done(result=Vectors() as vectors):
                self._found[number] = vectors
            case Failed() | Cancelled() | Done():
                return event._replace(task_id=task_id)
            case _:
                return None
        if len(self._found) < len(self.parts):
            return None
        return Done(task_id, _joined([self._found[n] for n in range(len(self.parts))]))


def parts_of(
    payload: EmbedPayload, tokens: Sequence[float], tokens_max: float
) -> list[EmbedPayload]:
    """Cut a payload into parts within a bound of tokens, at least a text each.

    Args:
        payload: what is cut.
        tokens: of each of its texts.
        tokens_max: of a part.
    """
    parts, start, held = [], 0, 0.0
    for place, size in enumerate(tokens):
        if place > start and held + size > tokens_max:
            parts.append(payload.part(start, place))
            start, held = place, 0.0
        held += size
    return [*parts, payload.part(start, len(tokens))]


def _joined(parts: Sequence[Vectors]) -> Vectors:
    return Vectors(
        np.concatenate([part.values for part in parts]),
        sum(part.tokens for part in parts),
        sum(part.truncated for part in parts),
        sum(part.windowed for part in parts),
    )
