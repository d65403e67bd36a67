"""Which engine of a lane is stepped next."""

import math
from collections.abc import Sequence
from typing import Final

from heddle.core.frames import TERMINAL, Frame
from heddle.core.tasks import Priority
from heddle.hosts.guarded_engine import GuardedEngine

FOLLOW_UP_S: Final = 0.003
"""How long after an answer the task that its request sends next may take to come: the runtime
reads the answer, builds the task and sends it. A step of a lower class takes much longer."""


class Turns:
    """The engines of a lane, served by class.

    Engines whose most urgent tasks are of one class take turns, a step each. Those that have less
    urgent tasks only, or none, have to wait, and for `FOLLOW_UP_S` after an answer, too: a request
    goes from engine to engine, and each time a step of theirs would hold it up.

    Args:
        engines: of the lane, in their order.

    Mutates: `stepped` notes whose turn it was.
    """

    def __init__(self, engines: Sequence[GuardedEngine]) -> None:
        self._engines = engines
        self._last = 0
        self._answered: Priority | None = None
        self._until_s = -math.inf

    def choose(self, now_s: float) -> tuple[int | None, float]:
        """Return which engine is next, None = none has work, and how long to wait before [s].

        The time is inf where none has work. A command that comes meanwhile may change the choice.
        """
        ready = [i for i, engine in enumerate(self._engines) if engine.wants_step]
        if not ready:
            return None, math.inf
        classes = {i: self._engines[i].live.most_urgent for i in ready}
        first = min((c for c in classes.values() if c is not None), default=None)
        urgent = [i for i in ready if classes[i] == first]
        chosen = next((i for i in urgent if i > self._last), urgent[0])
        is_lower = self._answered is not None and (first is None or first > self._answered)
        return chosen, max(0.0, self._until_s - now_s) if is_lower else 0.0

    def stepped(self, number: int, urgency: Priority | None, frame: Frame, now_s: float) -> None:
        """Note an engine's step.

        Args:
            number: of the engine.
            urgency: of its most urgent task when the step began.
            frame: what the step has told.
            now_s: when it ended, on the clock of `choose`.
        """
        self._last = number
        if urgency is not None and any(isinstance(event, TERMINAL) for event in frame.events):
            self._answered, self._until_s = urgency, now_s + FOLLOW_UP_S
