"""What a lane on another node costs: one behind an agent and TCP beside one of this machine.

`rtt`: one task at a time to an engine that answers at once, with 384 numbers. `cpu`: the
CPU time of a task in this process and in the lane, 64 in flight. `oneshot`: a whole question
(embedding, search, answer by the small reader) to two servers that differ in where their LLM lane
runs. Both contenders take turns in every comparison, and a ratio is the median over the turns:
above 1 is what TCP, with its seals, adds. Agent and lanes run on this machine and talk over its
loopback device, so a network's own latency isn't in the figures.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar

from benchmarks.support.echo_lane import EchoLane, echo_lane
from benchmarks.support.held_cores import held_to
from benchmarks.support.local_agent import LocalAgent, local_agent
from benchmarks.support.tiny_server import index_documents, write_documents
from heddle import Server
from heddle.core.errors import InputError
from heddle.hosts.lane_process import StartedLane
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.nodes.remote_process import RemoteProcess
from heddle.runtime.supervision import LaneLimits

IN_FLIGHT: Final = 64
CORES_MIN: Final = 2
LIMITS: Final = LaneLimits()
KV_BYTES: Final = 64 << 20
QUESTION: Final = "Who is the keeper of Rock 3?"
T = TypeVar("T")


class Sizes(NamedTuple):
    """How many turns there are, and what is done in each."""

    turns: int
    round_trips: int
    tasks: int
    questions: int


QUICK: Final = Sizes(turns=6, round_trips=150, tasks=600, questions=3)
FULL: Final = Sizes(turns=30, round_trips=500, tasks=3_000, questions=8)


class Pair(NamedTuple):
    """A figure of both contenders in one turn."""

    process: float
    tcp: float

    @property
    def ratio(self) -> float:
        """How many times the process lane's figure the other's is."""
        return self.tcp / self.process

    @classmethod
    def in_turns(
        cls, turns: int, contenders: tuple[T, T], figure: Callable[[T], float]
    ) -> list[Self]:
        """Return a figure of both contenders, who take turns; the first turn only warms up."""
        pairs = []
        for turn in range(turns + 1):
            first, second = contenders if turn % 2 else contenders[::-1]
            one, other = figure(first), figure(second)
            pairs.append(cls(one, other) if turn % 2 else cls(other, one))
            print(f"{pairs[-1].process * 1e3:.3f} {pairs[-1].tcp * 1e3:.3f} ms", flush=True)
        return pairs[1:]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure both lanes in turns."""
    sizes = QUICK if quick else FULL
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < CORES_MIN:
        raise InputError(f"bench lanes needs {CORES_MIN} cores: the LLM lane has one to itself")
    with local_agent(cpus[1:2]) as agent:
        rtt, cpu = _lanes(agent, sizes)
        oneshot = _questions(agent, sizes, cpus[0])
    rows = {"rtt": rtt, "cpu": cpu, "oneshot": oneshot}
    headline: dict[str, float] = {}
    for name, pairs in rows.items():
        headline[f"x_process_{name}"] = statistics.median(pair.ratio for pair in pairs)
    for name, pairs in rows.items():
        for contender in Pair._fields:
            middle_s = statistics.median(getattr(pair, contender) for pair in pairs)
            headline[f"{contender}_{name}_ms"] = middle_s * 1e3
    return {
        "settings": {**sizes._asdict(), "in_flight": IN_FLIGHT},
        "rows": [{name: pair._asdict()} for name, pairs in rows.items() for pair in pairs],
        "headline": headline,
    }


def _lanes(agent: LocalAgent, sizes: Sizes) -> tuple[list[Pair], list[Pair]]:
    def start(spec: LaneSpec) -> StartedLane:
        return RemoteProcess(spec, "local", agent.address, agent.secret, LIMITS)

    with echo_lane(LIMITS) as process, echo_lane(LIMITS, start) as tcp:
        lanes = (process, tcp)

        def round_trip(lane: EchoLane) -> float:
            return lane.round_trip_s(sizes.round_trips)

        def cpu(lane: EchoLane) -> float:
            return lane.cpu_s(sizes.tasks, IN_FLIGHT)

        return Pair.in_turns(sizes.turns, lanes, round_trip), Pair.in_turns(sizes.turns, lanes, cpu)


def _questions(agent: LocalAgent, sizes: Sizes, own_core: int) -> list[Pair]:
    with tempfile.TemporaryDirectory() as folder:
        documents = write_documents(Path(folder) / "documents")
        corpus = index_documents([documents], Path(folder) / "corpus")
        here = Server("reader", corpus, dtype="float32", kv_cache_bytes=KV_BYTES)
        with here, _server_on(agent, corpus, own_core) as there:

            def ask(server: Server) -> float:
                app, times_s = server.app("oneshot"), []
                for _ in range(sizes.questions):
                    began_s = time.perf_counter()
                    app.invoke(QUESTION)
                    times_s.append(time.perf_counter() - began_s)
                return statistics.median(times_s)

            return Pair.in_turns(sizes.turns, (here, there), ask)


@contextmanager
def _server_on(agent: LocalAgent, corpus: Path, own_core: int) -> Iterator[Server]:
    """Start a server whose LLM lane runs on the agent's node; the other lanes get the first core.

    A server of one machine gives its LLM lane the second core and the others the first, too.
    """
    with held_to({own_core}):
        server = Server(
            "reader",
            corpus,
            dtype="float32",
            kv_cache_bytes=KV_BYTES,
            agents=str(agent.address),
            cluster_secret_file=agent.secret_file,
        )
    with server:
        yield server
