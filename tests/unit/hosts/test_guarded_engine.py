"""What an engine raises becomes Failed events that say as much as the error did."""

import pytest

from heddle.core.commands import Cancel, Command
from heddle.core.errors import StorageError, Unreachable
from heddle.core.frames import Done, Failed, Frame
from heddle.core.results import ToolResult
from heddle.hosts.guarded_engine import GuardedEngine
from tests.helpers.echo_engine import admit


class Refusing:
    """An engine that takes no command."""

    name = "engine"
    has_work = False

    def __init__(self, error: Exception) -> None:
        self.error = error

    def apply(self, command: Command) -> None:
        """Refuse it."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "is_away"), [(Unreachable("no server"), True), (StorageError("no disk"), False)]
)
def test_a_task_that_is_refused_says_whether_the_corpus_is_away(
    error: Exception, is_away: bool
) -> None:
    engine = GuardedEngine(Refusing(error), 1)  # type: ignore[arg-type]
    frame = engine.apply(admit(7, "text"))
    assert frame is not None
    message = f"{type(error).__name__}: {error}"
    assert frame.events == (Failed(7, message, is_away=is_away),)
    assert len(engine.live) == 0


class Answering(Refusing):
    """An engine whose first step returns `first`, and whose next ones answer."""

    has_work = True

    def __init__(self, first: object) -> None:
        self.returned = [first]
        self.commands: list[Command] = []

    def apply(self, command: Command) -> None:
        """Take it."""
        self.commands.append(command)

    def step(self, now_s: float, budget_s: float) -> object:
        """Return what is returned first, then the answer to task 8."""
        done = Frame(self.name, 1, 0.0, (Done(8, ToolResult(1)),))
        return self.returned.pop() if self.returned else done


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "step returned None, which is no Frame"),
        (("engine", 1, 0.0, ()), "which is no Frame"),
        (Frame("engine", 1, 0.0, None), "'NoneType' object is not iterable"),  # type: ignore[arg-type]
        (Frame("engine", 1, 0.0, (ToolResult(1),)), "which is no event"),  # type: ignore[arg-type]
    ],
)
def test_a_step_that_returns_no_proper_frame_fails_its_tasks_and_the_engine_goes_on(
    returned: object, words: str
) -> None:
    engine = Answering(returned)
    guarded = GuardedEngine(engine, 1)  # type: ignore[arg-type]
    guarded.apply(admit(7, "text"))
    (failed,) = guarded.step(0.0).events
    assert isinstance(failed, Failed)
    assert words in failed.message
    assert engine.commands[-1] == Cancel(7)
    guarded.apply(admit(8, "text"))
    assert guarded.step(0.0).events == (Done(8, ToolResult(1)),)
    assert len(guarded.live) == 0
