"""A task: one payload on its way to an engine, with the identity of who asks.

NamedTuples, because making them is a good part of the runtime's own work. (frames.py)
"""

import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from heddle.core.errors import InputError
from heddle.core.payloads import Payload
from heddle.core.primitives import PrimitiveKind

RUN_CHARS_MAX: Final = 128
NODE_CHARS_MAX: Final = 128
DEPTH_MAX: Final = 1 << 12
_RUN: Final = re.compile(rf"[A-Za-z0-9._:-]{{1,{RUN_CHARS_MAX}}}")


class Optimizations(Enum):
    """How far Heddle may go to be fast. (docs/design/architecture.md#exactness)"""

    OFF = "off"
    EXACT = "exact"
    APPROX = "approx"


class Priority(IntEnum):
    """Service class; a lower value is served first. Indexing is BULK."""

    INTERACTIVE = 0
    NORMAL = 1
    BULK = 2


class Identity(NamedTuple):
    """Who asks: travels with every engine call.

    `first_request` is the first request of the same run, where another program makes its calls as
    requests of their own; 0 = the request is a run by itself.
    """

    request_id: int
    node: str
    depth: int = 0
    tenant: str = ""
    priority: Priority = Priority.NORMAL
    first_request: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """A node of a program that calls the engine several times for one run.

    The calls of a run count as one request wherever requests are ranked by their age.

    Args:
        run: the id of the run: 1 to 128 letters, digits and . _ : -
        node: the node that calls; "" = unknown.
        depth: steps of the program that follow this call on the longest way to its end.

    Raises:
        InputError: a value can't be used; the message names it.
    """

    run: str
    node: str = ""
    depth: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.run, str) or not _RUN.fullmatch(self.run):
            raise InputError(
                f"run must have 1 to {RUN_CHARS_MAX} letters, digits and . _ : -, "
                f"got {self.run!r:.40}",
                param="run",
            )
        is_node = isinstance(self.node, str) and len(self.node) <= NODE_CHARS_MAX
        if not is_node or not (self.node.isprintable() or not self.node):
            raise InputError(
                f"node must have at most {NODE_CHARS_MAX} printable characters, "
                f"got {self.node!r:.40}",
                param="node",
            )
        if isinstance(self.depth, bool) or not isinstance(self.depth, int):
            raise InputError(f"depth must be an integer, got {self.depth!r:.40}", param="depth")
        if not 0 <= self.depth <= DEPTH_MAX:
            raise InputError(
                f"depth must be from 0 to {DEPTH_MAX}, got {self.depth}", param="depth"
            )


class Task(NamedTuple):
    """One payload for one engine.

    `seconds_left` is the time to the request's deadline when the task was sent [s]; deadlines
    cross a process boundary as seconds left because clocks of two processes differ.
    """

    task_id: int
    kind: PrimitiveKind
    identity: Identity
    payload: Payload
    seconds_left: float = float("inf")
    optimizations: Optimizations = Optimizations.EXACT
