"""What a server and a node's agent say to each other, once both have proved themselves.

A server opens two connections for a lane. On the first one, for control, it asks for the lane and
says that it lives; the agent says what the lane's process does. The second one is the lane's own:
the agent hands it to the process it starts, and sees nothing of what goes through it.
"""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import ClassVar

from heddle.hosts.machine import MachineFacts


def build() -> str:
    """Return what both ends must have alike: messages are pickles of Heddle's own classes."""
    return f"Heddle {version('heddle')}, Python {'.'.join(platform.python_version_tuple()[:2])}"


@dataclass(frozen=True, slots=True)
class AskFacts:
    """Asks an agent for `NodeReport`."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node is and has.

    Args:
        name: what people call it.
        build: its `build()`.
        machine: what its lanes may use.
        numa_nodes: the usable cores of each NUMA node.
    """

    name: str
    build: str
    machine: MachineFacts
    numa_nodes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class HoldAgent:
    """Says that this server needs the agent for as long as the connection lasts."""


@dataclass(frozen=True, slots=True)
class LaneBody:
    """Satisfies Body: a lane's process as its server wants it on a node.

    Memory and environment are the node's own affair: a lane's memory lies beside the cores that
    touch it first. (ADR 48)

    Args:
        name: the lane's name.
        cpus: the cores it is pinned to; empty = wherever the system puts it.
        threads: threads of each numeric library inside it.
    """

    name: str
    cpus: tuple[int, ...]
    threads: int
    memory_node: ClassVar[int | None] = None
    environment: ClassVar[tuple[tuple[str, str], ...]] = ()


@dataclass(frozen=True, slots=True)
class StartLane:
    """Asks an agent for a lane, whose own connection follows with the same ticket.

    Args:
        ticket: what the two connections have in common.
        owner: the server; its older lane of the same name is killed first.
        build: the server's `build()`.
        body: the lane's process.
        heartbeat_s: how often either side says that it lives [s].
        silence_s_max: how long the server may be silent before the agent kills the lane [s].
    """

    ticket: bytes
    owner: bytes
    build: str
    body: LaneBody
    heartbeat_s: float
    silence_s_max: float


@dataclass(frozen=True, slots=True)
class Awaited:
    """The agent takes the lane, and waits for its own connection."""


@dataclass(frozen=True, slots=True)
class JoinLane:
    """The one message of the server on a lane's connection, before the lane itself has it."""

    ticket: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent can't start the lane; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Started:
    """The lane's process runs, and has its connection."""

    pid: int


@dataclass(frozen=True, slots=True)
class ServerBeat:
    """The server lives."""


@dataclass(frozen=True, slots=True)
class LaneReport:
    """How long the lane's process has computed or waited for a core since it began [s]."""

    progress_s: float


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the lane's process and its children."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The lane's process is gone; `how` says how it ended."""

    how: str
