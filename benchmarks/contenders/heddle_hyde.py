"""Heddle: the same request on the real runtime, with engines that answer on the next turn.

This one runs in Heddle's own environment.
"""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.contenders.fake_engines import DIMS, TOPK, measure
from heddle.core.commands import Admit, Command
from heddle.core.credits import Credits
from heddle.core.frames import Done, Frame
from heddle.core.passages import Passage
from heddle.core.payloads import (
    EmbedPayload,
    Payload,
    PrefillPayload,
    SearchPayload,
    Segment,
)
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    FinishReason,
    Generated,
    Hits,
    KvHandle,
    Prefilled,
    Result,
    Vectors,
)
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import topology_aware
from heddle.runtime.clock import SystemClock
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

ROWS = 256


class FakePort:
    """An EnginePort that answers every task on the loop's next turn."""

    def __init__(self, name: str, *kinds: PrimitiveKind) -> None:
        self.name = name
        self.kinds = frozenset(kinds)
        self.credits = Credits(ROWS)
        self.epoch = 1
        self._frames: list[Frame] = []
        self._wake: Callable[[], None] = lambda: None

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Remember whom to wake."""
        self._wake = wake

    def frames(self) -> Sequence[Frame]:
        """Return the answers so far."""
        frames, self._frames = self._frames, []
        return frames

    def send(self, command: Command) -> None:
        """Answer a task on the next turn."""
        if isinstance(command, Admit):
            asyncio.get_running_loop().call_soon(self._answer, command)

    def _answer(self, command: Admit) -> None:
        task = command.task
        done = Done(task.task_id, self._result(task.task_id, task.payload))
        self._frames.append(Frame(self.name, 1, 0.0, (done,)))
        self._wake()

    def _result(self, task_id: int, payload: Payload) -> Result:
        if isinstance(payload, EmbedPayload):
            return Vectors(np.zeros((payload.rows, DIMS), np.float32))
        if isinstance(payload, SearchPayload):
            labels = np.tile(np.arange(payload.topk), (payload.rows, 1))
            return Hits(labels, np.zeros(labels.shape, np.float32))
        if isinstance(payload, PrefillPayload):
            return Prefilled(KvHandle(self.name, 1, task_id), 64, 0)
        return Generated("a passage that could answer", (1,), FinishReason.STOP)


class OneTokenSegments:
    """A Tokenizer that costs nothing: tokenising isn't the orchestrator's work."""

    context_tokens_max = 4096

    def encode_prompt(self, parts: Sequence[object]) -> tuple[Segment, ...]:
        """Return a segment for each part, head and tail."""
        return (Segment((1,)),) * (len(parts) + 2)

    def check_length(self, parts: Sequence[object]) -> None:
        """Do nothing: all prompts are short."""

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return one token."""
        return (1,)


class TablePassages:
    """A PassageSource of a few passages."""

    _passages = tuple(Passage(i, f"d{i}", f"title {i}", f"passage {i}") for i in range(TOPK))

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return them by id."""
        return [self._passages[i] for i in chunk_ids]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of them are damaged: none."""
        return 0


def hyde() -> RAGraph:
    """Return the workflow: generate, embed and search, generate."""
    graph = RAGraph("hyde")
    graph.add_generation("imagine", "Write a passage for {query}", output="hypothesis")
    graph.add_retrieval("search", query="hypothesis", topk=TOPK)
    graph.add_generation("answer", "Answer the question from the notes.\n\n{docs}{query}")
    return graph


class Asker:
    """Submits to a runtime on the running loop, made at the first question unless before.

    Mutates: `start` makes the runtime.
    """

    def __init__(self, workflow: Workflow, llm: EnginePort | None = None) -> None:
        self._llm = llm or FakePort("llm", PrimitiveKind.PREFILLING, PrimitiveKind.DECODING)
        self._clock = SystemClock()
        self._workflow = workflow
        self._loop: RuntimeLoop | None = None

    async def ask(self, query: str) -> Answer:
        """Run one request."""
        driver = self.start()
        handle = Handle(lambda: None)
        driver.runtime.submit(
            self._workflow, {"query": query}, handle.push, now_s=self._clock.now_s()
        )
        driver.wake()
        return await handle

    def start(self) -> RuntimeLoop:
        """Return the loop that drives the runtime, made with it if it isn't there."""
        if self._loop is not None:
            return self._loop
        ports = (
            FakePort("embedding", PrimitiveKind.EMBEDDING),
            FakePort("vector", PrimitiveKind.SEARCHING),
            self._llm,
        )
        runtime = Runtime(
            ports=ports,
            planner=RegionPlanner(PassRunner(self._clock)),
            policy=topology_aware,
            tokenizer=OneTokenSegments(),
            passages=TablePassages(),
        )
        self._loop = RuntimeLoop(runtime, self._clock, asyncio.get_running_loop())
        self._loop.start()
        return self._loop


if __name__ == "__main__":
    measure(Asker(hyde().compile()).ask)
