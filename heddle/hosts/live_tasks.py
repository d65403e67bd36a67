"""Which tasks of an engine are under way, so that none is left without its terminal event."""

from collections.abc import Iterable

from heddle.core.commands import Admit, Amend, Cancel, Command, Steer
from heddle.core.frames import Event, Failed, Progress


class LiveTasks:
    """Ids of the tasks that were admitted and have not ended.

    Mutates: `sent` and `answered` follow the commands to and the events from one engine.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[int, None] = {}  # in order of admission, so that replays agree

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._ids

    def sent(self, command: Command) -> bool:
        """Note a command; return False when it is for a task that has ended or never was."""
        match command:
            case Admit(task=task):
                self._ids[task.task_id] = None
                return True
            case Amend(task_id=task_id) | Cancel(task_id=task_id):
                return task_id in self._ids
            case Steer(task_id=int(task_id)):
                return task_id in self._ids
            case _:
                return True

    def answered(self, events: Iterable[Event]) -> None:
        """Note the terminal events among these."""
        for event in events:
            if type(event) is not Progress:
                self._ids.pop(event.task_id, None)

    def ids(self) -> tuple[int, ...]:
        """Return the live ids in order of admission."""
        return tuple(self._ids)

    def fail_all(self, message: str) -> tuple[Failed, ...]:
        """Return a Failed for every live task and forget them."""
        events = tuple(Failed(task_id, message) for task_id in self._ids)
        self._ids.clear()
        return events
