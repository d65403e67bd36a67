"""One rule that watches a simulation: the commands, the steps and what callers hear."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from heddle.core.commands import Command
from heddle.core.frames import Frame
from heddle.runtime.counters import Counters
from heddle.runtime.events import RequestEvent
from heddle.simulator.ticket import Ticket

PROBLEMS_MAX: Final = 20  # a broken rule tends to be broken again and again


@dataclass(slots=True)
class Check:
    """Hears of everything and notes what is wrong; by itself it finds nothing wrong.

    Mutates: `problems`, each in words, the oldest first, at most 20.
    """

    problems: list[str] = field(default_factory=list)

    def sent(self, lane: str, command: Command, now_s: float) -> None:
        """Hear that the runtime has sent a command to a lane."""

    def stepped(self, lane: str, frame: Frame, began_s: float) -> None:
        """Hear what a step of a lane that began at `began_s` has made, whether it arrives or not.

        Commands that arrived by `began_s` were taken in before.
        """

    def heard(self, ticket: Ticket, event: RequestEvent, now_s: float) -> None:
        """Hear what a caller hears."""

    def cycled(self, counters: Counters, harm_done: Callable[[], float], now_s: float) -> None:
        """Hear that the runtime has been through a cycle.

        `harm_done` returns how many faults have struck until now that make tasks fail.
        """

    def complain(self, problem: str) -> None:
        """Note that something is wrong."""
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
