"""The seams: what a layer needs from another without knowing it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar, runtime_checkable

from heddle.core.commands import Command
from heddle.core.credits import Credits
from heddle.core.frames import Frame
from heddle.core.passages import Passage
from heddle.core.payloads import Segment
from heddle.core.primitives import PrimitiveKind
from heddle.core.system_text import PromptPart

T = TypeVar("T")


class Clock(Protocol):
    """Where time comes from: the system's monotonic clock, or the simulator's."""

    def now_s(self) -> float:
        """Return the time since an arbitrary start [s]; never decreases."""
        ...


class EnginePort(Protocol):
    """What the runtime holds of an engine, wherever it lives. (docs/design/architecture.md)

    Example:
        import threading
        from heddle.core.commands import Admit
        from heddle.core.payloads import ToolPayload
        from heddle.core.primitives import PrimitiveKind
        from heddle.core.tasks import Identity, Task
        from heddle.hosts.tool_threads import ToolThreads
        from heddle.runtime.clock import SystemClock

        port, arrived = ToolThreads("tools", threads=1, clock=SystemClock()), threading.Event()
        port.subscribe(arrived.set)
        task = Task(1, PrimitiveKind.TOOL, Identity(1, "count"), ToolPayload(len, ("heddle",)))
        port.send(Admit(task))
        arrived.wait()
        print([event.result.value for frame in port.frames() for event in frame.events])  # [6]
        port.close()
    """

    @property
    def name(self) -> str:
        """The lane's name, unique in a server."""
        ...

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        ...

    @property
    def credits(self) -> Credits:
        """Rows it may hold at once; only the runtime takes and returns them."""
        ...

    @property
    def epoch(self) -> int:
        """Grows with every restart of the lane."""
        ...

    def send(self, command: Command) -> None:
        """Queue a command; never blocks and never raises for a dead lane."""
        ...

    def frames(self) -> Sequence[Frame]:
        """Return and forget the frames that have arrived, oldest first."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` (thread-safe, quick) whenever frames have arrived."""
        ...


@runtime_checkable
class Timed(Protocol):
    """An engine's port that wants to be read at some time even where nothing has arrived."""

    @property
    def due_s(self) -> float:
        """When that is, by the runtime's clock; inf = whenever something arrives [s]."""
        ...


@runtime_checkable
class Spread(Protocol):
    """An engine's port that spreads its tasks over several lanes."""

    @property
    def tasks_by_lane(self) -> Mapping[str, int]:
        """How many tasks each lane has, by its name; any thread may ask."""
        ...


@runtime_checkable
class Placing(Protocol):
    """An engine's port over several lanes, of which each keeps its own KV."""

    def lane_of(self, task_id: int) -> str:
        """Return the name of the lane that a task was sent to; it hasn't ended yet."""
        ...


class SteppedEngine(Protocol):
    """What a lane's own loop drives. (docs/design/architecture.md)

    Example:
        import math
        from examples.own_engine import WordRanker
        from heddle.core.commands import Admit
        from heddle.core.payloads import ReadingText, RerankPayload
        from heddle.core.primitives import PrimitiveKind
        from heddle.core.tasks import Identity, Task

        texts = (ReadingText("", "an old oak"), ReadingText("", "Oak Mill stands here"))
        asked = RerankPayload("Where does Oak Mill stand?", texts)
        engine = WordRanker()
        engine.apply(Admit(Task(1, PrimitiveKind.RERANKING, Identity(1, "rank"), asked)))
        while engine.has_work:
            for event in engine.step(now_s=0.0, budget_s=math.inf).events:
                print(event.task_id, event.result.scores)  # 1 (1.0, 2.0)
    """

    @property
    def name(self) -> str:
        """The lane's name."""
        ...

    @property
    def kinds(self) -> frozenset[PrimitiveKind]:
        """The primitives it carries out."""
        ...

    @property
    def has_work(self) -> bool:
        """Whether a step would do something: running or startable tasks, or unsent events."""
        ...

    def apply(self, command: Command) -> None:
        """Take a command in; cheap, and never raises for a task that has ended."""
        ...

    def step(self, now_s: float, budget_s: float) -> Frame:
        """Work for about `budget_s` and report; inf = the engine's own step size.

        A failure of one task becomes its Failed event; the others go on.
        """
        ...

    def predicted_step_s(self) -> float:
        """Return how long the next step should take, by its own cost model [s]."""
        ...


@runtime_checkable
class Closable(Protocol):
    """An engine that holds more than memory: threads, files, connections."""

    def close(self) -> None:
        """Let go of it, once what is being written is finished; nothing is called afterwards."""
        ...


@runtime_checkable
class Waking(Protocol):
    """An engine that may get work between commands, from threads of its own."""

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever `has_work` may have become true."""
        ...


class Tokenizer(Protocol):
    """Text to token ids and back, outside the lanes.

    Example:
        from heddle.core.system_text import SystemText
        from heddle.engines.llm.text.prompt_tokenizer import PromptTokenizer

        tokenizer = PromptTokenizer.from_directory(server.generator.directory)
        [passage] = server.search("Who founded Oak Mill?", topk=1).passages
        segments = tokenizer.encode_prompt(("Answer. ", passage, None))
        print([segment.role.value for segment in segments])
        # ['text', 'text', 'chunk', 'slot', 'text']
        print(segments[2].chunk_id == passage.chunk_id, segments[3].is_pending)  # True True
    """

    def encode_prompt(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Return the segments of a chat prompt: template head, one for each part, template tail.

        A part is text, a passage, or None for a slot that is not written yet, so part i is
        segment i + 1. The first part may be a system text. Decoding the joined ids gives the
        rendered template's text.
        """
        ...

    def check_length(self, parts: Sequence[PromptPart]) -> None:
        """Refuse parts that can't fit the model's context, without a look at their tokens.

        Raises:
            InputError: they are too long; says how much too long, and what to change.
        """
        ...

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return the token ids that fill a pending segment."""
        ...

    @property
    def context_tokens_max(self) -> int:
        """The model's context length [tokens]."""
        ...


class WorkPool(Protocol):
    """Threads for work that would hold up the runtime's own."""

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work beside the caller; nothing may change its inputs meanwhile."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever work has ended."""
        ...


class Tracer(Protocol):
    """Hears of every step, to draw and count; costs nothing when absent."""

    def step(self, frame: Frame, ended_s: float) -> None:
        """Take in one step of a lane: its frame, and when that came in [s]."""
        ...


class PassageSource(Protocol):
    """Where chunk ids become passages.

    Example:
        from heddle.corpus.store import CorpusStore

        with CorpusStore.open("corpus") as source:
            print([passage.title for passage in source.passages([3, 1, 999])])
            # ['mill', 'ferry']
    """

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return the live chunks among these ids, in the order asked.

        Deleted and damaged ones are left out.
        """
        ...

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of these are known to be damaged, of those a tenant may see."""
        ...


EngineFactory = Callable[[str, int], SteppedEngine]
"""Builds an engine from its name and epoch; runs inside the lane."""
