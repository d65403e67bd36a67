"""From ready primitives to tasks: which engine, in which order, how many rows at once."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from heddle.core.commands import LeaveKv
from heddle.core.degradation import DegradationKind
from heddle.core.errors import ConfigError
from heddle.core.passages import Passage
from heddle.core.payloads import (
    DecodePayload,
    Payload,
    PrefillPayload,
    begins_with,
    split_rows,
)
from heddle.core.ports import Tokenizer, WorkPool
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Priority
from heddle.costs.micro_batch import micro_batch_rows
from heddle.costs.win_rate import WinRates
from heddle.graph.primitive import DecodeConfig, Primitive
from heddle.runtime.batching import Pending, Take
from heddle.runtime.events import TokenDelta
from heddle.runtime.guess import (
    lane_of,
    may_guess,
    readers_of,
    settle_guess,
    stop_guess,
    takes_stored_kv,
)
from heddle.runtime.lane import Lane
from heddle.runtime.long_prompts import LongPrompt, LongPrompts
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.payload_builder import Built, build_lead, build_payload
from heddle.runtime.quarantine import MaySend
from heddle.runtime.repeats import draft_of, repeated, stand_in
from heddle.runtime.request import Guess, PrimitiveRun, Request, TextAhead
from heddle.runtime.task_table import TaskTable
from heddle.runtime.values import generated
from heddle.workflow.nodes import (
    AnswerCacheNode,
    DocumentsNode,
    ExtractionNode,
    GenerationNode,
    JoinNode,
    Node,
    PrimingNode,
    RankingNode,
    RetrievalNode,
    ToolNode,
)
from heddle.workflow.workflow import Workflow

PAIR_CREDITS = 2
LIKELY: Final = 0.9  # how sure a guess usually is that is made
UNREAD_TOKENS: Final = 16  # in one report of a text that is read at its end alone
FIXES: Final[Mapping[PrimitiveKind, str]] = {
    PrimitiveKind.PREFILLING: ": name a model that writes, such as --model reader (in Python "
    "generator='reader'), or ask the workflow 'quote'",
    PrimitiveKind.EXTRACTING: ": give the server an index, and --model extract",
    PrimitiveKind.RERANKING: ": name a model that ranks, such as --reranker extract",
    PrimitiveKind.SEARCHING: ": give the server an index",
    PrimitiveKind.EMBEDDING: ": give the server an index",
}
"""What to do where a server lacks an engine of this kind."""


@dataclass(slots=True)
class Dispatcher:
    """Queues ready primitives at the lanes and sends them as their credits allow.

    Args:
        lanes: the engines, by name.
        requests: those in flight, by id.
        tasks: where what is sent is kept.
        tokenizer: encodes prompts.
        speculates: whether searches tell what they have found by now, so that prompts can be
            computed ahead with that.
        threads: make the prompts that take long; None = they are made at once.
        win_rates: how the guesses of each node have ended.
        preferred: names of lanes that carry out their kinds alone, though others could.
        controls: the ready primitives that need no engine, oldest first.

    Mutates: the lanes' queues, the runs of primitives that are queued or sent, `tasks`, `controls`.
    Raises: ConfigError: an engine has fewer credits than one generation takes.
    """

    lanes: Mapping[str, Lane]
    requests: Mapping[int, Request]
    tasks: TaskTable
    tokenizer: Tokenizer | None
    speculates: bool = False
    threads: WorkPool | None = None
    win_rates: WinRates = field(default_factory=WinRates)
    preferred: frozenset[str] = frozenset()
    controls: deque[tuple[Request, PrimitiveRun]] = field(default_factory=deque)
    long_prompts: LongPrompts = field(init=False)
    _able: dict[PrimitiveKind, list[Lane]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.long_prompts = LongPrompts(self.threads)
        for lane in self.lanes.values():
            port = lane.port
            if PrimitiveKind.PREFILLING in port.kinds and port.credits.total < PAIR_CREDITS:
                raise ConfigError(
                    f"engine {port.name} has {port.credits.total} credit(s); a generation takes "
                    f"{PAIR_CREDITS} (its prefill and its decode): give it more"
                )
            for kind in port.kinds:
                self._able.setdefault(kind, []).append(lane)
        for kind, able in self._able.items():
            chosen = [lane for lane in able if lane.port.name in self.preferred]
            self._able[kind] = chosen or able

    def check(self, workflow: Workflow) -> None:
        """Refuse a workflow that these engines can't run.

        Raises:
            ConfigError: no engine carries out what a node needs.
        """
        for node in workflow.nodes.values():
            for needed in _needed_kinds(node):
                if needed not in self._able:
                    fix = FIXES.get(needed, "")
                    raise ConfigError(
                        f"node {node.id!r} of workflow {workflow.name!r} needs "
                        f"{needed.value}, and no engine here does that{fix}"
                    )

    def queue(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Let a primitive that is ready wait for an engine.

        A long prompt is built by a thread; `take` queues its primitive then. One whose text is
        there by an equal prompt needs no engine, nor does one whose needed value is empty.

        Raises:
            HeddleError: the payload can't be built.
        """
        if stand_in(request, run) is not None:
            request.shown.pop(run.primitive.node, None)
            self._note_shown(request, run, ())
            self._take_text(request, run, now_s)
            return
        if run.payload is not None and not run.is_growing:  # a cycle pass has held it back
            self.requeue(request, run, now_s)
            return
        primitive, store = run.primitive, request.store
        if self.long_prompts.is_long(primitive, store):
            self.long_prompts.start(request, run, partial(self._build, request, primitive, store))
        else:
            self._queue_built(request, run, self._build(request, primitive, store), now_s)

    def begin(self, request: Request, run: PrimitiveRun, store: ObjectStore, now_s: float) -> None:
        """Queue the rows that are known by now of what is not ready; `store` has their values.

        Raises:
            HeddleError: the payload can't be built.
        """
        payload = self._build(request, run.primitive, store).payload
        if run.payload is None or payload.rows > run.payload.rows:
            self._go_on(request, run, payload, now_s)
            run.is_growing = True

    def take(self, prompt: LongPrompt, now_s: float) -> None:
        """Queue a primitive whose prompt a thread has made, if that is still wanted.

        Raises:
            HeddleError: the prompt can't be made.
        """
        request, run = prompt.request, prompt.run
        if request.runs.get(run.primitive.name) is run:
            self._queue_built(request, run, prompt.built.result(), now_s)

    def _queue_built(self, request: Request, run: PrimitiveRun, built: Built, now_s: float) -> None:
        if run.is_growing:
            run.is_growing = False
            self._go_on(request, run, built.payload, now_s)
            return
        run.payload = built.payload
        if built.shown:
            request.shown[run.primitive.node] = built.shown
            self._note_shown(request, run, built.shown)
        run.won = _whole_text(run)
        if run.won is None and repeated(request, run) is None:
            self.requeue(request, run, now_s)
        else:
            self._take_text(request, run, now_s)

    def _note_shown(
        self, request: Request, prefill: PrimitiveRun, passages: tuple[Passage, ...]
    ) -> None:
        """Note what the text that follows a prompt rests on."""
        if prefill.plan.rider is not None:
            decode = request.runs[prefill.plan.rider].primitive
            request.shown_for[decode.writes[0]] = passages

    def _take_text(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Let a generation end without an engine: its text is known."""
        self._end_asking(request, run)
        self.end_guess(request, run, now_s, is_adopted=run.won is not None)
        self.controls.append((request, run))

    def end_guess(
        self, request: Request, prefill: PrimitiveRun, now_s: float, *, is_adopted: bool
    ) -> None:
        """End what was computed ahead for a prefill, if anything was; `is_adopted`: it served."""
        guess = stop_guess(self.tasks, request, prefill)
        if guess is not None:
            rates = self.win_rates
            settle_guess(rates, request, prefill, guess, now_s, is_found=is_adopted)

    def _go_on(self, request: Request, run: PrimitiveRun, payload: Payload, now_s: float) -> None:
        """Queue the rows that are new, or all where those that were sent are others now."""
        if run.payload is not None and not begins_with(payload, run.payload):
            note = f"{run.primitive.name} began again: its first rows are others now"
            request.receipt.degrade(DegradationKind.PIPELINE, note)
            self.forget_rows(request, run)
        run.payload = payload
        _leave_queues(self.lanes, request, run)  # another lane may be the best by now
        if run.rows_sent < payload.rows:
            self.requeue(request, run, now_s)

    def forget_rows(self, request: Request, run: PrimitiveRun) -> None:
        """Forget what was sent of a primitive, and what waits to be."""
        self.tasks.detach(request, run)
        _leave_queues(self.lanes, request, run)
        run.start_over()

    def requeue(self, request: Request, run: PrimitiveRun, now_s: float) -> None:
        """Let a primitive wait for an engine with the rows of its payload that were not sent."""
        primitive, plan = run.primitive, run.plan
        assert run.payload is not None, f"{primitive.name!r} is queued without a payload"
        rows = run.payload.rows - run.rows_sent
        if not plan.is_splittable:
            rows = min(1, run.payload.rows)
        # A prefill takes a credit for its decode too: the pair must never wait half sent.
        rows += plan.rider is not None
        self.lane_for(primitive.kind, run.failed_on).scheduler.add(
            Pending(
                request.id,
                primitive.name,
                plan.depth + request.depth_behind,
                rows,
                request.since_s,
                request.priority,
                plan.is_splittable,
                request.first_request,
            )
        )
        if run.sent_s < 0:
            run.ready_s = now_s

    def guess(self, request: Request, prefill: Primitive, store: ObjectStore) -> PrefillPayload:
        """Return a prompt as it would be with another store, to be computed ahead.

        Raises:
            HeddleError: the payload can't be built.
        """
        payload, _ = self._build(request, prefill, store)
        assert isinstance(payload, PrefillPayload), f"{prefill.name!r} is no prefill"
        return replace(payload, is_speculative=True, rows=0)

    def lead(
        self, request: Request, prefill: Primitive, key: str, store: ObjectStore
    ) -> PrefillPayload:
        """Return a prompt up to the passages of a key, as they are in a store by now.

        Raises:
            HeddleError: the payload can't be built.
        """
        return build_lead(prefill, key, store, self.tokenizer, request.cache_salt)

    def _build(self, request: Request, primitive: Primitive, store: ObjectStore) -> Built:
        scope = SearchScope(request.tenant, request.where)
        salt = request.cache_salt
        return build_payload(primitive, store, self.tokenizer, scope, request.kv_reuse, salt)

    def can_ask(self) -> bool:
        """Whether an engine runs questions ahead of their prompts."""
        return PrimitiveKind.ASKING in self._able

    def send_waiting(self, now_s: float, may_send: MaySend | None = None) -> None:
        """Send what the lanes have credits for, in the order of the batching policy."""
        for lane in self.lanes.values():
            if lane.scheduler.pending:
                credits = lane.port.credits
                for take in lane.scheduler.decide(credits.free, credits.used, may_send):
                    self._send(lane, self.requests[take.request_id], take, now_s)

    def withdraw(self, request: Request) -> None:
        """Drop a request's queued primitives, its tasks in flight and its loaded KV."""
        self.long_prompts.drop(request.id)
        for load_id, port in request.loads.items():
            port.send(LeaveKv(load_id))
        for lane in self.lanes.values():
            lane.scheduler.drop_request(request.id)
        self.tasks.cancel(request)

    def lane_for(self, kind: PrimitiveKind, failed_on: Collection[str] = ()) -> Lane:
        """Return the lane that carries out a primitive of this kind best now.

        Those that it has `failed_on` come last: a lane that fails everything has the most room.
        """
        able = self._able[kind]
        if len(able) == 1:
            return able[0]
        others = [lane for lane in able if lane.port.name not in failed_on] or able
        return max(others, key=lambda lane: lane.port.credits.free - len(lane.scheduler.pending))

    def works_for_others(self, kind: PrimitiveKind, request: Request) -> bool:
        """Whether the lane that would carry out a request's primitive has other requests' work."""
        lane = self.lane_for(kind)
        if any(request_id != request.id for request_id, _ in lane.scheduler.pending):
            return True
        own = sum(self.tasks.open[task_id].lane is lane for task_id in request.tasks)
        return lane.in_flight > own

    def _send(self, lane: Lane, request: Request, take: Take, now_s: float) -> None:
        run = request.runs.get(take.primitive)
        if run is None:
            # A question whose prompt was taken with it and went first: only these take no credit.
            assert not take.rows, f"{take.primitive!r} is sent and not there"
            return
        assert run.payload is not None, f"{take.primitive!r} is sent without a payload"
        run.won = _whole_text(run)
        if run.won is not None:  # its text became whole while it waited here
            self._take_text(request, run, now_s)
            return
        if run.sent_s < 0:
            run.sent_s = now_s
            run.tell_start(request.sink)
        run.engine = lane.port.name
        if run.plan.rider is not None:
            self._send_pair(lane, request, run, request.runs[run.plan.rider], now_s)
            return
        if not run.plan.is_splittable:
            self._send_rows(lane, request, run, run.payload.rows - run.rows_sent, take.rows, now_s)
            return
        rows_max = self._micro_batch(lane, request, run) or max(1, take.rows)
        for first in range(0, max(1, take.rows), rows_max):  # what has no row is a task, too
            rows = min(rows_max, take.rows - first)
            self._send_rows(lane, request, run, rows, rows, now_s)

    def _micro_batch(self, lane: Lane, request: Request, run: PrimitiveRun) -> int | None:
        """Return how many rows are a task, for stages whose readers begin with parts; None = all.

        What is indexed in bulk is not waited for, and each part would be a commit of its own.
        """
        costs = None if lane.last is None else lane.last.costs
        is_stage = run.primitive.kind is PrimitiveKind.EMBEDDING and bool(run.plan.items_to)
        if not is_stage or costs is None or lane.row_s is None or run.is_growing:
            return None
        if request.priority is Priority.BULK:
            return None
        readers = [request.runs[name] for name in run.plan.items_to if name in request.runs]
        rows_s = [self.lane_for(reader.primitive.kind).row_s or 0.0 for reader in readers]
        call_s = costs.coefficients_s.get("call", 0.0)
        return micro_batch_rows(call_s, lane.row_s, max(rows_s, default=0.0))

    def _send_rows(
        self,
        lane: Lane,
        request: Request,
        run: PrimitiveRun,
        rows: int,
        credit_rows: int,
        now_s: float,
    ) -> None:
        """Send the next rows of a primitive as one task."""
        assert run.payload is not None, f"{run.primitive.name!r} is sent without a payload"
        if run.is_growing:
            request.receipt.rows_ahead += rows
        first_row = run.rows_sent
        run.rows_sent += rows
        part = split_rows(run.payload, first_row, run.rows_sent)
        # One row of several finds a part of the passages.
        is_alone = run.payload.rows == 1 and not run.is_growing
        is_watched = is_alone and self.looks_pay(lane) and self.may_look(request)
        is_watched = is_watched and bool(readers_of(request, run))
        self.tasks.send(
            lane,
            request,
            run,
            part,
            credit_rows=credit_rows,
            first_row=first_row,
            report_every=int(is_watched),
            now_s=now_s,
        )

    def may_look(self, request: Request) -> bool:
        """Whether prompts of a request could use what their searches have found by now."""
        able = self._able.get(PrimitiveKind.PREFILLING, ())
        guesses = may_guess(request) and any(lane.busy_max is not None for lane in able)
        return guesses or self.may_read_kv(request)

    def looks_pay(self, searching: Lane) -> bool:
        """Whether it is worth telling what searches of a lane have found by now.

        They are cut into more steps for that. No prompt is computed ahead on an LLM engine where
        a likely guess, and all of a search's time, would not pay.
        """
        if not self.speculates or PrimitiveKind.PREFILLING not in self._able:
            return False
        lane = self.lane_for(PrimitiveKind.PREFILLING)
        if lane.stored is not None or searching.stage_s is None:
            return True
        return lane.may_gain(LIKELY, searching.stage_s)

    def may_read_kv(self, request: Request) -> bool:
        """Whether a request's prompts take stored KV, of which some lies on disk."""
        if not takes_stored_kv(request):
            return False
        return self.lane_for(PrimitiveKind.PREFILLING).stored is not None

    def _end_asking(self, request: Request, prefill: PrimitiveRun) -> None:
        """Give up on a question that is still to be run: the prompt itself is sent now."""
        asking = request.runs.pop(prefill.plan.asking, None) if prefill.plan.asking else None
        if asking is None:
            return
        _leave_queues(self.lanes, request, asking)
        self.tasks.detach(request, asking)

    def _send_pair(
        self,
        lane: Lane,
        request: Request,
        prefill: PrimitiveRun,
        decode: PrimitiveRun,
        now_s: float,
    ) -> None:
        config = decode.primitive.config
        prompt = prefill.payload
        assert isinstance(prompt, PrefillPayload), "a prefill is sent without a prompt"
        self._end_asking(request, prefill)
        guess = stop_guess(self.tasks, request, prefill)
        ahead = None if guess is None else guess.text_for(prompt.token_ids)
        is_shown = False
        if ahead is not None and not decode.written:
            _show(request, decode, ahead)
            is_shown = bool(ahead.token_ids)
        prompt = prompt.ridden(prefill.load_id, decode.written)
        assert isinstance(config, DecodeConfig), f"{decode.primitive.name!r} rides as a decode"
        prefill_id = self.tasks.send(lane, request, prefill, prompt, now_s=now_s)
        if guess is not None:  # the lane is known now
            is_found = guess.serves(prompt.token_ids, lane.port, lane_of(lane.port, prefill_id))
            how = {"is_found": is_found, "is_shown": is_shown}
            settle_guess(self.win_rates, request, prefill, guess, now_s, **how)
        continues = resumes = len(decode.written)
        if config.written is not None:
            continues += len(generated(request.store, config.written).token_ids)
        decode.payload = DecodePayload(
            prefill_id,
            config.sampling,
            config.pause,
            continues,
            resumes,
            draft=draft_of(request, decode),
        )
        decode.ready_s = decode.sent_s = now_s
        decode.engine, decode.prefill = prefill.engine, prefill
        # Each report costs both sides; by these, too, a lost text is written on.
        is_read = bool(decode.plan.items_to) or not request.awaits_end_alone()
        every = 1 if is_read else UNREAD_TOKENS
        decode_id = self.tasks.send(
            lane, request, decode, decode.payload, report_every=every, now_s=now_s
        )
        self.tasks.lease(prefill_id, decode_id)


def _leave_queues(lanes: Mapping[str, Lane], request: Request, run: PrimitiveRun) -> None:
    for lane in lanes.values():
        lane.scheduler.pending.pop((request.id, run.primitive.name), None)


def _show(request: Request, decode: PrimitiveRun, ahead: TextAhead) -> None:
    """Show what was written behind a guess that has won; the decode goes on behind it."""
    decode.written = tuple(ahead.token_ids)
    if ahead.text:
        request.sink(TokenDelta(decode.primitive.node, ahead.text))


def _whole_text(prefill: PrimitiveRun) -> Guess | None:
    """Return the guess that has written the whole text of a prefill's final prompt, if one has."""
    guess, prompt = prefill.guess, prefill.payload
    if guess is None or not isinstance(prompt, PrefillPayload):
        return None
    ahead = guess.text_for(prompt.token_ids)
    return guess if ahead is not None and ahead.result is not None else None


def _needed_kinds(node: Node) -> tuple[PrimitiveKind, ...]:
    if isinstance(node, GenerationNode):
        return (PrimitiveKind.PREFILLING, PrimitiveKind.DECODING)
    if isinstance(node, RetrievalNode):
        ranking = () if node.rerank is None else (PrimitiveKind.RERANKING,)
        search = PrimitiveKind.SEARCHING if node.within is None else PrimitiveKind.MATCHING
        return (PrimitiveKind.EMBEDDING, search, *ranking)
    if isinstance(node, ExtractionNode):
        return (PrimitiveKind.EXTRACTING,)
    if isinstance(node, RankingNode):
        return (PrimitiveKind.RERANKING,)
    if isinstance(node, ToolNode):
        return (PrimitiveKind.TOOL,)
    if isinstance(node, JoinNode):
        return ()
    if isinstance(node, DocumentsNode):
        return (PrimitiveKind.EMBEDDING,)
    if isinstance(node, AnswerCacheNode):
        return () if node.similarity is None else (PrimitiveKind.EMBEDDING,)
    if isinstance(node, PrimingNode):
        searching = (PrimitiveKind.SEARCHING,) if node.neighbours_max else ()
        return (*searching, PrimitiveKind.PRIMING)
    return (PrimitiveKind.EMBEDDING, PrimitiveKind.INGESTION)
