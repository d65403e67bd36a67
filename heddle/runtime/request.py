"""One request in flight: its store, its open primitives, its receipt."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.passages import Passage
from heddle.core.payloads import Payload, Sampling, Segment
from heddle.core.ports import EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Generated, Hits, Prefilled, Result, Vectors
from heddle.core.search_scope import Where
from heddle.core.tasks import Caller, Optimizations, Priority
from heddle.graph.primitive import Primitive
from heddle.lowering.scope import Scope
from heddle.runtime.events import RequestEvent
from heddle.runtime.kept_answer import KeptAnswer, LookupDraft
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.primitive_plan import PrimitivePlan
from heddle.runtime.receipt import ReceiptDraft
from heddle.runtime.runs import RunTexts
from heddle.runtime.written_list import WrittenList
from heddle.workflow.function_run import FunctionRun
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

EventSink = Callable[[RequestEvent], None]


@dataclass(slots=True)
class TextAhead:
    """What a decode has written behind a guess; nothing of it is shown before the guess has won.

    `token_ids` and `text` are its output so far, `result` is the whole output at its end. `problem`
    says why it failed, "" = it hasn't.
    """

    task_id: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    result: Generated | None = None
    problem: str = ""


@dataclass(slots=True)
class Guess:
    """A prompt, or its first part, that was sent for a prefill which still waits for its search.

    `chunk_ids` are the passages in it: those found when it was sent. `engine`, `epoch` and `lane`
    say where it was computed. `probability` and `gain_s` are what was predicted; `problem` says why
    it failed, "" = it hasn't. `prefilled` is the engine's answer, `ahead` the decode that follows,
    where there is one.
    """

    task_id: int
    chunk_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    engine: str
    epoch: int
    lane: str
    probability: float
    gain_s: float
    sent_s: float
    problem: str = ""
    prefilled: Prefilled | None = None
    ahead: TextAhead | None = None

    @property
    def tokens_written(self) -> int:
        """Tokens that were written behind it."""
        return 0 if self.ahead is None else len(self.ahead.token_ids)

    def text_for(self, token_ids: tuple[int, ...]) -> TextAhead | None:
        """Return what was written behind exactly this prompt; None where nothing was."""
        ahead = self.ahead
        if ahead is None or ahead.problem or self.problem or token_ids != self.token_ids:
            return None
        return ahead

    def serves(self, token_ids: tuple[int, ...], port: EnginePort, lane: str) -> bool:
        """Whether a prompt of the same request finds on a lane what was computed ahead of it.

        The tenant and how chunk KV is used are the request's, so they don't change; each lane
        has a prefix index of its own, which a restart empties.
        """
        where = self.engine, self.epoch, self.lane
        is_begun = token_ids[: len(self.token_ids)] == self.token_ids
        return not self.problem and is_begun and where == (port.name, port.epoch, lane)


class Writing(NamedTuple):
    """The newest text of a node, and all that it depends on."""

    prompt: tuple[Segment, ...]
    reuse: KvReuse
    sampling: Sampling
    result: Generated


@dataclass(slots=True)
class PrimitiveRun:
    """One primitive of one request while it is open.

    `region` counts the regions that the request has opened up to this one.
    `parts` collects the results of split rows by their first row; `rows_sent` and
    `rows_done` count them. `sent_s` is when the first of them was sent, -1 = not yet. `round`
    counts the retrievals of a generation that decodes in rounds; `prefill` is what a decode that
    is on its way rides along with; `guess` is what was sent ahead for a prefill and its decode.
    `won` is a guess with the whole text of a prompt, which ends without an engine. `written` are
    the tokens of a decode that were shown before it was sent, by failed tries or by a guess that
    has won: it goes on behind them. `told` are
    the tokens that this try has reported so far; engines that report only text leave it empty.
    `load_id` names the `LoadKv` that was sent for a prefill. `failed_on` names the engines of
    failed tries. It `has_started` once the node's start is public. It `is_counted` once the receipt
    has the tokens of its prompt, which a further try doesn't add.

    `then` are the primitives that a cycle pass has made wait for it.
    `listed` are the items of a list that it writes, for readers that begin with them. While
    `is_growing`, its payload holds the rows that are known by now, and more may come.
    """

    primitive: Primitive
    plan: PrimitivePlan
    region: int
    waits: int
    ready_s: float = 0.0
    sent_s: float = -1.0
    payload: Payload | None = None
    rows_sent: int = 0
    rows_done: int = 0
    retries: int = 0
    round: int = 0
    engine: str = ""
    prefill: "PrimitiveRun | None" = None
    guess: Guess | None = None
    won: Guess | None = None
    load_id: int | None = None
    written: tuple[int, ...] = ()
    has_started: bool = False
    is_counted: bool = False
    has_emitted: bool = False
    told: list[int] = field(default_factory=list)
    failed_on: tuple[str, ...] = ()
    parts: dict[int, Result] = field(default_factory=dict)
    then: list[str] = field(default_factory=list)
    listed: WrittenList | None = None
    is_growing: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether all rows of its whole payload are answered."""
        if self.payload is None or self.is_growing or self.sent_s < 0:
            return False
        return self.rows_done == self.payload.rows

    def first_parts(self) -> Iterator[Vectors | Hits]:
        """Yield the results of its rows up to the first that is missing."""
        row = 0
        while isinstance(part := self.parts.get(row), Vectors | Hits):
            yield part
            row += part.rows

    def tell_start(self, sink: EventSink) -> None:
        """Say once that its node has begun, if it is the node's first primitive.

        Mutates: `has_started`.
        """
        if self.plan.started is not None and not self.has_started:
            self.has_started = True
            sink(self.plan.started)

    def start_over(self) -> None:
        """Forget that it was sent, and what was answered."""
        self.sent_s = -1.0
        self.rows_sent = self.rows_done = 0
        self.parts.clear()
        self.has_emitted = False
        self.told.clear()


class OpenedPart(NamedTuple):
    """A part of a function's workflow that was opened in a scope, behind what was there before."""

    before: Workflow
    part: RAGraph
    scope: Scope


@dataclass(slots=True)
class Request:
    """A request from admission to its one terminal event.

    Its searches find only documents that fit `where` and that `tenant` may see. `last` is the
    decode that wrote the answer so far, chosen by `last_rank`: whether its node is an output, its
    region, its place in the region. `shown` holds what each node's newest prompt showed, and
    `shown_for` what the text of a key rests on; `writings` holds what each node has written last.
    Where a workflow function runs, `authors` maps keys to the primitives that wrote them; `opened`
    is its newest part, `has_waited` whether it has waited since, `has_read` whether its code has
    had the value of a call; it has returned the value of `returned_key`, or `returned_text`.
    Prompts of requests with the same `cache_salt` share their KV. `caller` is the node of another
    program that it is a call of; its run's first request is `first_request`, which came at
    `run_since_s` (0 and -1 = it is a run by itself). `run_texts` are its drafts; None = it has
    none. `digest` is what `Suspects` knows it by, once that has looked. `loads` are the ids of its
    `LoadKv`, and the engines that they were sent to. `lookup` is that of its answer cache, and
    `kept` the answer which that has found. `awaits_end_alone` says whether its texts are read at
    the end alone.
    """

    id: int
    workflow: Workflow
    scope: Scope
    arrival_s: float
    deadline_s: float
    priority: Priority
    tenant: str
    optimizations: Optimizations
    sink: EventSink
    kv_reuse: KvReuse = FULL_ATTENTION
    where: Where = ()
    cache_salt: str = ""
    caller: Caller | None = None
    first_request: int = 0
    run_since_s: float = -1.0
    run_texts: RunTexts | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)
    digest: bytes = b""
    store: ObjectStore = field(default_factory=ObjectStore)
    runs: dict[str, PrimitiveRun] = field(default_factory=dict)
    waiting_reads: dict[str, list[str]] = field(default_factory=dict)
    tasks: set[int] = field(default_factory=set)
    loads: dict[int, EnginePort] = field(default_factory=dict)
    receipt: ReceiptDraft = field(default_factory=ReceiptDraft)
    steps: int = 0
    regions: int = 0
    last: Primitive | None = None
    last_rank: tuple[bool, int, int] = (False, 0, 0)
    shown: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    shown_for: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    writings: dict[str, Writing] = field(default_factory=dict)
    function_run: FunctionRun | None = None
    authors: dict[str, Primitive] = field(default_factory=dict)
    opened: OpenedPart | None = None
    has_waited: bool = False
    has_read: bool = False
    returned_key: str | None = None
    returned_text: str | None = None
    lookup: LookupDraft | None = None
    kept: KeptAnswer | None = None
    awaits_end_alone: Callable[[], bool] = lambda: False
    is_ended: bool = False

    @property
    def since_s(self) -> float:
        """When its run came, by which it is as old as the others of that [s]."""
        return self.arrival_s if self.run_since_s < 0 else self.run_since_s

    @property
    def depth_behind(self) -> int:
        """Steps that follow its end in the program that made it."""
        return 0 if self.caller is None else self.caller.depth

    def kinds_open(self) -> frozenset[PrimitiveKind]:
        """The kinds of the open primitives."""
        return frozenset(run.primitive.kind for run in self.runs.values())
