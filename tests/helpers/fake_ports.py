"""Engines that a test scripts, and a runtime over them on a clock that the test moves."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from heddle.core.commands import Admit, Cancel, Release
from heddle.core.counts import SearchCounts
from heddle.core.credits import Credits
from heddle.core.errors import InputError
from heddle.core.frames import Cancelled, Done, Failed, Frame, Progress
from heddle.core.passages import Passage
from heddle.core.payloads import (
    AskPayload,
    EmbedPayload,
    ExtractPayload,
    IngestPayload,
    PrefillPayload,
    RerankPayload,
    SearchPayload,
    Segment,
)
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import (
    Asked,
    Extracted,
    FinishReason,
    Generated,
    Hits,
    Ingested,
    KvHandle,
    Prefilled,
    Quote,
    Reranked,
    ToolResult,
    Vectors,
)
from heddle.passes.runner import PassRunner
from heddle.runtime.admission import RuntimeLimits
from heddle.runtime.batching import topology_aware
from heddle.runtime.events import Answer, RequestFailed
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime

EMBED = frozenset({PrimitiveKind.EMBEDDING})
VECTOR = frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION})
LLM = frozenset({PrimitiveKind.PREFILLING, PrimitiveKind.DECODING, PrimitiveKind.ASKING})
READING = frozenset({PrimitiveKind.EXTRACTING, PrimitiveKind.RERANKING})
TOOL = frozenset({PrimitiveKind.TOOL, PrimitiveKind.MATCHING})


class ManualClock:
    def __init__(self):
        self.time_s = 0.0

    def now_s(self):
        return self.time_s


class FakePort:
    """An EnginePort that answers at once, except the tasks that `holds` selects.

    `texts` maps a node to what its generations write, one after another, the last again and
    again: texts, or results such as the rounds of one generation. `tokens` says how many pieces
    a text streams in.
    """

    def __init__(self, name, kinds, credits=64, tokens=2):
        self.name, self.kinds, self.credits = name, kinds, Credits(credits)
        self.epoch = 1
        self.holds: Callable[[object], bool] = lambda task: False
        self.on_admit: Callable[[object], tuple | None] = lambda task: None
        self.texts = {}
        self.shown = {}
        self.tokens = tokens
        self.costs = None
        self.gauges = {}
        self.commands = []
        self.open = {}
        self._arrived = []
        self._number = 0
        self._wake = lambda: None

    # -- EnginePort
    def subscribe(self, wake):
        self._wake = wake

    def frames(self):
        arrived, self._arrived = self._arrived, []
        return arrived

    def send(self, command):
        self.commands.append(command)
        if isinstance(command, Admit):
            self._admit(command.task)
        elif isinstance(command, Cancel) and command.task_id in self.open:
            self.post(Cancelled(command.task_id))

    def _admit(self, task):
        self.open[task.task_id] = task
        events = self.on_admit(task)
        if events is not None:
            self.post(*events)
        elif not self.holds(task):
            self.answer(task.task_id)

    # -- what tests do with it
    def answer(self, task_id, result=None):
        task = self.open[task_id]
        result = result or self.result(task)
        pieces = ()
        if isinstance(result, Generated):
            node = task.identity.node
            shown = self.shown.get(node, "") if task.payload.continues else ""
            self.shown[node] = result.text
            pieces = self.pieces(task_id, result.text.removeprefix(shown))
        self.post(*pieces, Done(task_id, result))

    def answer_all(self):
        for task_id in list(self.open):
            self.answer(task_id)

    def pieces(self, task_id, text):
        size = -(-len(text) // self.tokens) or 1
        cuts = range(0, len(text), size)
        return tuple(Progress(task_id, (i,), text[i : i + size]) for i in cuts)

    def fail(self, task_id, message="it broke", is_input=False, is_full=False, is_away=False):
        self.post(Failed(task_id, message, is_input, is_full=is_full, is_away=is_away))

    def post(self, *events, lost=False, epoch=None):
        """Send a numbered frame, or lose it on the way; return what was sent."""
        self._number += 1
        for event in events:
            if not isinstance(event, Progress):
                self.open.pop(event.task_id, None)
        epoch = self.epoch if epoch is None else epoch
        frame = Frame(self.name, epoch, 0.001, tuple(events), number=self._number)
        frame = frame._replace(costs=self.costs, gauges=self.gauges)
        if not lost:
            self.deliver(frame)
        return frame

    def deliver(self, frame):
        self._arrived.append(frame)
        self._wake()

    @property
    def has_frames(self):
        """Whether a frame waits that the runtime hasn't taken."""
        return bool(self._arrived)

    def lose_frames(self):
        """Have the frames that wait never come."""
        self._arrived.clear()

    def lose_lane(self, message="lane lost: it died"):
        """Do what a process host does when its lane dies."""
        failed = tuple(Failed(task_id, message) for task_id in self.open)
        self.open.clear()
        self.deliver(Frame(self.name, self.epoch, 0.0, failed))
        self.epoch += 1
        self._number = 0

    def sent(self, kind):
        return [c for c in self.commands if isinstance(c, kind)]

    def tasks(self):
        return [c.task for c in self.sent(Admit)]

    @property
    def released(self):
        return [c.handle.id for c in self.sent(Release)]

    def result(self, task):
        payload = task.payload
        if isinstance(payload, EmbedPayload):
            lengths = [[len(text), 1.0] for text in payload.texts]
            return Vectors(np.array(lengths, np.float32), tokens=payload.rows)
        if isinstance(payload, SearchPayload):
            return hits_of(payload)
        if isinstance(payload, PrefillPayload):
            return Prefilled(KvHandle(self.name, self.epoch, task.task_id), 10, 4)
        if isinstance(payload, AskPayload):
            return Asked()
        if isinstance(payload, RerankPayload):
            return Reranked(scores_of(payload), tokens=payload.rows)
        if isinstance(payload, ExtractPayload):
            return extracted_of(payload)
        if isinstance(payload, IngestPayload):
            return Ingested(payload.rows, 1)
        if task.kind in TOOL:
            return ToolResult(payload.function(*payload.arguments))
        texts = self.texts.get(task.identity.node, ["hello"])
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        if isinstance(text, Generated):
            return text
        return Generated(text, (1, 2), FinishReason.STOP)


def is_search(task):
    """Whether a task is a search; for `FakePort.holds`."""
    return isinstance(task.payload, SearchPayload)


def hits_of(payload):
    """Chunk ids from the first coordinate of each query: text length, +1, +2, ..."""
    first = payload.queries[:, :1].astype(np.int64)
    labels = first + np.arange(payload.topk)
    distances = np.tile(np.arange(payload.topk, dtype=np.float32), (payload.rows, 1))
    counts = SearchCounts(lists_scanned=payload.rows, lists_probed=payload.rows)
    return Hits(labels, distances, counts)


def scores_of(payload):
    """The later a passage, the better it is."""
    return tuple(float(row) for row in range(payload.rows))


def extracted_of(payload):
    """Quote the first character of every passage but the first, which doesn't answer."""
    scores = tuple(score - 0.5 for score in scores_of(payload))
    quotes = [Quote(row, 0, 1, score) for row, score in enumerate(scores)]
    best = tuple(sorted(quotes, key=lambda quote: -quote.score)[: payload.quotes_max])
    return Extracted(best, scores, tokens=payload.rows, windows=payload.rows)


class FakeTokenizer:
    context_tokens_max = 1000

    def encode_prompt(self, parts):
        middle = (Segment(None if p is None else self.encode_slot(str(p))) for p in parts)
        return (Segment((1,)), *middle, Segment((2,)))

    def check_length(self, parts):
        longest = max((len(str(part)) for part in parts), default=0)
        if longest > self.context_tokens_max:
            raise InputError(f"the prompt has {longest} characters: shorten the question")

    def encode_slot(self, text):
        return tuple(map(ord, text))


class FakePassages:
    def passages(self, chunk_ids):
        return [Passage(i, "d", f"t{i}", f"x{i}") for i in chunk_ids]

    def count_damaged(self, chunk_ids, tenant):
        return 0


@dataclass
class Call:
    """A request and what its sink has heard."""

    id: int = 0
    events: list = field(default_factory=list)

    def push(self, event):
        self.events.append(event)

    @property
    def ends(self):
        return [e for e in self.events if isinstance(e, Answer | RequestFailed)]

    @property
    def answer(self):
        (end,) = self.ends
        assert isinstance(end, Answer), getattr(end, "error", None)
        assert self.events[-1] is end
        return end

    @property
    def error(self):
        (end,) = self.ends
        assert isinstance(end, RequestFailed), end
        assert self.events[-1] is end
        return end.error


class Bench:
    """A runtime over an embedding, a vector, an LLM, a reading and a tool port."""

    def __init__(
        self,
        *,
        policy=topology_aware,
        limits=None,
        runner=None,
        ports=None,
        more=(),
        speculates=False,
        threads=None,
        preferred=(),
        tracers=(),
        passages=None,
        **sizes,
    ):
        self.clock = ManualClock()
        self.embedding = FakePort("embedding", EMBED, sizes.get("embedding", 64))
        self.vector = FakePort("vector", VECTOR, sizes.get("vector", 64))
        self.llm = FakePort("llm", LLM, sizes.get("llm", 64))
        self.reading = FakePort("reading", READING, sizes.get("reading", 64))
        self.tools = FakePort("tools", TOOL, sizes.get("tools", 64))
        own = [self.embedding, self.vector, self.llm, self.reading, self.tools]
        self.ports = ports or [*own, *more]
        self.runtime = Runtime(
            ports=self.ports,
            planner=RegionPlanner(runner or PassRunner(self.clock)),
            policy=policy,
            limits=limits or RuntimeLimits(),
            tokenizer=FakeTokenizer(),
            passages=passages or FakePassages(),
            clock=self.clock,
            speculates=speculates,
            threads=threads,
            preferred=frozenset(preferred),
            tracers=tracers,
        )

    def submit(self, workflow, inputs=None, *, cycle=True, **options):
        call = Call()
        call.id = self.runtime.submit(
            workflow, inputs or {"query": "why"}, call.push, now_s=self.clock.time_s, **options
        )
        if cycle:
            self.cycle()
        return call

    def cycle(self, after_s=0.0):
        """Cycle until nothing new has come in."""
        self.clock.time_s += after_s
        wake_at_s = self.runtime.cycle(self.clock.time_s)
        while any(port.has_frames for port in self.ports):
            wake_at_s = self.runtime.cycle(self.clock.time_s)
        return wake_at_s

    def cancel(self, call):
        self.runtime.cancel(call.id, self.clock.time_s)
        self.cycle()

    def assert_idle(self):
        """Nothing is held any more: no task, lease, credit, queue place or request."""
        runtime = self.runtime
        assert not runtime.requests.open
        assert not runtime.tasks.open
        assert not runtime.tasks.leases
        assert runtime.requests.admission.live == runtime.requests.admission.live_bulk == 0
        for lane in runtime.lanes.values():
            assert lane.in_flight == 0
            assert not lane.scheduler.pending
            assert lane.port.credits.used == 0
            assert not lane.port.open
