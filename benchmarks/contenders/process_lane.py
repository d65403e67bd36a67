"""A lane whose engine streams tokens and does nothing else: what a process boundary costs."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

from benchmarks.contenders.heddle_hyde import Asker, hyde
from heddle.core.commands import Admit, Cancel, Command
from heddle.core.frames import Cancelled, Done, Event, Frame, Progress
from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import FinishReason, Generated, KvHandle, Prefilled
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.process import start_lanes

TOKENS = 64
CONCURRENCY = 32
KINDS = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING})


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How many tokens every decode streams."""

    tokens: int = TOKENS


@dataclass(slots=True)
class StreamEngine:
    """A SteppedEngine: one token a step for every decode."""

    name: str
    epoch: int
    tokens: int
    kinds: frozenset[PrimitiveKind] = KINDS
    decodes: dict[int, int] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=deque)

    @property
    def has_work(self) -> bool:
        """Whether a step would say something."""
        return bool(self.decodes or self.events)

    def apply(self, command: Command) -> None:
        """Answer a prefill at once; start a decode."""
        if isinstance(command, Cancel):
            if self.decodes.pop(command.task_id, None) is not None:
                self.events.append(Cancelled(command.task_id))
        elif isinstance(command, Admit):
            task = command.task
            if isinstance(task.payload, PrefillPayload):
                handle = KvHandle(self.name, self.epoch, task.task_id)
                self.events.append(Done(task.task_id, Prefilled(handle, 64, 0)))
            elif isinstance(task.payload, DecodePayload):
                self.decodes[task.task_id] = 0

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Give every decode one token."""
        events: list[Event] = list(self.events)
        self.events.clear()
        for task_id in list(self.decodes):
            self.decodes[task_id] += 1
            events.append(Progress(task_id, (1,), " word"))
            if self.decodes[task_id] == self.tokens:
                del self.decodes[task_id]
                done = Generated(" word" * self.tokens, (1,) * self.tokens, FinishReason.LENGTH)
                events.append(Done(task_id, done))
        return Frame(self.name, self.epoch, 0.0, tuple(events), has_work=self.has_work)

    def predicted_step_s(self) -> float:
        """Return a step's length: next to nothing."""
        return 1e-3


def build_engine(name: str, epoch: int, settings: StreamSettings) -> StreamEngine:
    """Build the engine inside its lane."""
    return StreamEngine(name, epoch, settings.tokens)


def streamed_request_ms(requests: int) -> float:
    """Return this process's CPU for one HyDE request whose LLM streams from a process lane."""
    spec = EngineSpec(
        "llm", "benchmarks.contenders.process_lane:build_engine", StreamSettings(), 256, KINDS
    )
    lanes = start_lanes((LaneSpec("llm", (spec,)),))
    try:
        return _measure(lanes[0].ports["llm"], requests)
    finally:
        lanes[0].close()


def _measure(port: EnginePort, requests: int) -> float:
    asker = Asker(hyde().compile(), port)

    async def wave(size: int) -> None:
        await asyncio.gather(*(asker.ask("what is a loom?") for _ in range(size)))

    async def run() -> float:
        await wave(CONCURRENCY)
        started_s = time.process_time()
        for _ in range(max(1, requests // CONCURRENCY)):
            await wave(CONCURRENCY)
        return (time.process_time() - started_s) / (max(1, requests // CONCURRENCY) * CONCURRENCY)

    return asyncio.run(run()) * 1e3
