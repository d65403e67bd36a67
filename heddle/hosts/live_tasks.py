"""Which tasks of an engine are under way: none is left without its terminal event."""

from collections.abc import Iterable

from heddle.core.commands import Admit, Amend, Cancel, Command, Steer
from heddle.core.frames import Event, Failed, Progress
from heddle.core.tasks import Priority


class LiveTasks:
    """The tasks that were admitted and have not ended, each with its class.

    Mutates: `sent` and `answered` follow the commands to and the events from one engine.
    """

    __slots__ = ("_classes",)

    def __init__(self) -> None:
        # By id, in order of admission, so that replays agree.
        self._classes: dict[int, Priority] = {}

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._classes

    @property
    def most_urgent(self) -> Priority | None:
        """The class of the most urgent one; None where none is under way."""
        return min(self._classes.values(), default=None)

    def sent(self, command: Command) -> bool:
        """Note a command; return False when it is for a task that has ended or never was."""
        match command:
            case Admit(task=task):
                self._classes[task.task_id] = task.identity.priority
                return True
            case Amend(task_id=task_id) | Cancel(task_id=task_id):
                return task_id in self._classes
            case Steer(task_id=int(task_id), priority=priority):
                if task_id in self._classes and priority is not None:
                    self._classes[task_id] = priority
                return task_id in self._classes
            case _:
                return True

    def answered(self, events: Iterable[Event]) -> None:
        """Note the terminal events among these."""
        for event in events:
            if type(event) is not Progress:
                self._classes.pop(event.task_id, None)

    def ids(self) -> tuple[int, ...]:
        """Return the live ids in order of admission."""
        return tuple(self._classes)

    def fail_all(self, message: str, *, is_away: bool = False) -> tuple[Failed, ...]:
        """Return a Failed for every live task and forget them.

        `is_away`: as the corpus can't be reached.
        """
        events = tuple(Failed(task_id, message, is_away=is_away) for task_id in self._classes)
        self._classes.clear()
        return events
