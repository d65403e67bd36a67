"""A task: one payload on its way to an engine, with the identity of who asks.

NamedTuples, because making them is a good part of the runtime's own work. (frames.py)
"""

from enum import Enum, IntEnum
from typing import NamedTuple

from heddle.core.payloads import Payload
from heddle.core.primitives import PrimitiveKind


class Optimizations(Enum):
    """How far Heddle may go to be fast. (docs/architecture.md#exactness)"""

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
