"""The real runtime over recorded searches on virtual time: blocks of asks, one policy."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Final

from benchmarks.coscheduling.asks import Ask
from benchmarks.speculating.engines import LLM_LIMITS, LongPassages, lanes
from benchmarks.speculating.recorded import Recording
from benchmarks.speculating.rivals import MakePass, Unguarded
from heddle.core.errors import InternalError
from heddle.passes.runner import CYCLE_PASSES, CyclePass, PassRunner
from heddle.passes.split_substages import SplitSubstages
from heddle.runtime.batching import topology_aware
from heddle.runtime.events import Answer, RequestEvent, RequestFailed
from heddle.runtime.receipt import Receipt
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.simulator.cost_model_llm import WordTokenizer
from heddle.simulator.port import SimulatedPort
from heddle.simulator.timeline import Timeline
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import PRESETS
from heddle.workflow.workflow import Workflow

PATIENCE_S: Final = 3600.0
PAUSE_S: Final = 1.0  # between blocks


@dataclass(frozen=True, slots=True)
class Policy:
    """When prompts are computed ahead.

    `rival` makes the pass that decides in the place of Heddle's own, whose guesses need no
    probability. Without `speculates` no search reports partial hits.
    """

    name: str
    speculates: bool = True
    rival: MakePass | None = None

    def cycle_passes(self) -> Sequence[CyclePass]:
        """Return the passes of one server."""
        return CYCLE_PASSES if self.rival is None else (SplitSubstages(), self.rival())


OFF: Final = Policy("off", speculates=False)
OWN: Final = Policy("heddle")
UNGUARDED: Final = Policy("unguarded", rival=Unguarded)


@dataclass(frozen=True, slots=True)
class Served:
    """What became of an ask: how long it took [s], what was done, and what was written."""

    seconds: float
    receipt: Receipt
    text: str


@dataclass(slots=True)
class VirtualServer:
    """A server on virtual time. Mutates: its timeline moves on with each block."""

    found: Recording
    policy: Policy
    seed: int
    timeline: Timeline = field(default_factory=Timeline)
    _runtime: Runtime = field(init=False)
    _is_woken: bool = False

    def __post_init__(self) -> None:
        draws = random.Random(self.seed)
        built = lanes(self.found, always_told=self.policy.rival is not None)
        ports = [SimulatedPort(one, self.timeline, random.Random(draws.random())) for one in built]
        for port in ports:
            port.device.jitter_share = 0.0  # policies differ in their schedules alone
            port.subscribe(self._wake)
        passes = self.policy.cycle_passes()
        self._runtime = Runtime(
            ports=ports,
            planner=RegionPlanner(PassRunner(self.timeline, cycle_passes=passes)),
            policy=topology_aware,
            tokenizer=WordTokenizer(LLM_LIMITS.context_tokens_max),
            passages=LongPassages(self.found),
            clock=self.timeline,
            speculates=self.policy.speculates,
        )

    def serve(self, asks: Sequence[Ask]) -> list[Served]:
        """Answer a block of asks as they come.

        Raises:
            InternalError: one failed, or was never answered.
        """
        block = Block(self, len(asks))
        started_s = self.timeline.now_s() + PAUSE_S
        for number, ask in enumerate(asks):
            self.timeline.at(started_s + ask.at_s, partial(block.submit, number, ask))
        return block.run()

    def per_s(self, asks: Sequence[Ask], in_flight: int) -> float:
        """Return how many asks end a second while as many are in flight, from a fifth to four."""
        block = Block(self, len(asks), iter(enumerate(asks)))
        for _ in range(in_flight):
            block.submit_next()
        block.run()
        ends_s = sorted(block.ends_s)
        first, last = len(asks) // 5, 4 * len(asks) // 5
        return (last - first) / (ends_s[last] - ends_s[first])

    def submit(self, ask: Ask, block: "Block", number: int) -> None:
        """Take an ask in."""
        self._runtime.submit(
            compiled(ask.workflow, ask.nprobe),
            {"query": ask.question},
            partial(block.hear, number, self.timeline.now_s()),
            now_s=self.timeline.now_s(),
            deadline_s=PATIENCE_S,
        )
        self._wake()

    def step(self) -> bool:
        """Do what comes next; False when nothing is planned."""
        if self._is_woken:
            self._is_woken = False
            self._runtime.cycle(self.timeline.now_s())
        return self.timeline.step()

    def _wake(self) -> None:
        self._is_woken = True


@dataclass(slots=True)
class Block:
    """Asks that are under way; each end may bring the next. Mutates: fills itself as they end."""

    server: VirtualServer
    count: int
    left: Iterator[tuple[int, Ask]] = field(default_factory=lambda: iter(()))
    served: dict[int, Served] = field(default_factory=dict)
    ends_s: list[float] = field(default_factory=list)

    def submit(self, number: int, ask: Ask) -> None:
        """Send an ask."""
        self.server.submit(ask, self, number)

    def submit_next(self) -> None:
        """Send the next of those that wait for another's end, if one is left."""
        for number, ask in self.left:
            self.submit(number, ask)
            return

    def hear(self, number: int, came_s: float, event: RequestEvent) -> None:
        """Take an event of an ask in."""
        now_s = self.server.timeline.now_s()
        if isinstance(event, RequestFailed):
            raise InternalError(f"ask {number} failed: {event.error}")
        if isinstance(event, Answer):
            self.served[number] = Served(now_s - came_s, event.receipt, event.text)
            self.ends_s.append(now_s)
            self.server.timeline.after(0.0, self.submit_next)

    def run(self) -> list[Served]:
        """Let time pass until all have ended."""
        while len(self.served) < self.count:
            if not self.server.step():
                raise InternalError(f"{self.count - len(self.served)} asks were never answered")
        return [self.served[number] for number in range(self.count)]


@cache
def compiled(name: str, nprobe: int | None) -> Workflow:
    """Return a ready-made workflow whose searches scan `nprobe` lists."""
    workflow = PRESETS[name]().compile()
    nodes = {
        node_id: replace(node, nprobe=nprobe) if isinstance(node, RetrievalNode) else node
        for node_id, node in workflow.nodes.items()
    }
    return replace(workflow, nodes=nodes)
