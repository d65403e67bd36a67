"""What an engine raises becomes Failed events that say as much as the error did."""

import pytest

from heddle.core.commands import Admit, Command
from heddle.core.errors import StorageError, Unreachable
from heddle.core.frames import Failed
from heddle.core.payloads import EmbedPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.hosts.guarded_engine import GuardedEngine


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
    task = Task(7, PrimitiveKind.EMBEDDING, Identity(7, "node"), EmbedPayload(("text",)))
    frame = engine.apply(Admit(task))
    assert frame is not None
    message = f"{type(error).__name__}: {error}"
    assert frame.events == (Failed(7, message, is_away=is_away),)
    assert len(engine.live) == 0
