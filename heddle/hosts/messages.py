"""What a lane and its parent say to each other besides plain bytes."""

from dataclasses import dataclass
from typing import NamedTuple

from heddle.core.commands import Command
from heddle.core.frames import Frame
from heddle.core.printing.log_lines import LogFormat


@dataclass(frozen=True, slots=True)
class LaneStart:
    """The first message to a lane.

    `spec` is a pickled LaneSpec: opening it imports the modules of the settings, and what goes
    wrong there has to be reported like any other failure to start.
    """

    spec: bytes
    epoch: int
    heartbeat_s: float
    log_level: int
    log_format: LogFormat = LogFormat.TEXT


@dataclass(frozen=True, slots=True)
class LaneReady:
    """Every engine of the lane is built."""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """An engine could not be built; `error` names a class of heddle.core.errors, or is empty."""

    error: str
    message: str


class ToEngine(NamedTuple):
    """A command for the lane's engine with this index."""

    engine: int
    command: Command


class FromEngine(NamedTuple):
    """Frames of the lane's engine with this index, oldest first."""

    engine: int
    frames: tuple[Frame, ...]
