"""Who may send work while suspects are in flight: one suspect at a time, at last alone. (ADR 56)"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from heddle.runtime.lane import Lane
from heddle.runtime.request import Request
from heddle.runtime.suspects import Suspects
from heddle.runtime.task_table import TaskTable

MaySend = Callable[[int], bool]


@dataclass(slots=True)
class Quarantine:
    """Lets suspects run one after another, the oldest first.

    Others run beside a suspect until a lane dies in its turn. From then on it runs alone: its work
    is sent once no other request has any under way, and nothing is sent beside it. Requests
    with the same workflow and inputs have their turn together.

    Args:
        suspects: which requests are suspected.
        requests: those in flight, by id.
        tasks: what is under way.
        lanes: the engines and their queues.

    Mutates: only whose turn it is.
    """

    suspects: Suspects
    requests: Mapping[int, Request]
    tasks: TaskTable
    lanes: Mapping[str, Lane]
    _turn: bytes | None = None

    def gate(self) -> MaySend | None:
        """Return which requests, by id, may send work now; None = all."""
        found = ((id_, self.suspects.suspected(one)) for id_, one in self.requests.items())
        suspected = {id_: digest for id_, digest in found if digest is not None}
        if not suspected:
            self._turn = None
            return None
        turn = self._turn
        if turn is None or turn not in suspected.values():
            turn = self._turn = suspected[min(suspected)]
        own = {id_ for id_, digest in suspected.items() if digest == turn}
        others = suspected.keys() - own
        if not self.suspects.must_be_alone(turn) or not self._has_work(own):
            return lambda id_: id_ not in others
        if any(task.request.id not in own for task in self.tasks.open.values()):
            return lambda _: False  # until their work has ended
        return own.__contains__

    def _has_work(self, own: Set[int]) -> bool:
        """Whether requests have work that waits or is under way."""
        if any(task.request.id in own for task in self.tasks.open.values()):
            return True
        waiting = (lane.scheduler.pending for lane in self.lanes.values())
        return any(id_ in own for pending in waiting for id_, _ in pending)
