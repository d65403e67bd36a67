"""Prompts computed while their search still runs: what could be, and what is. (HedraRAG §4.3)"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from heddle.core.commands import LoadKv
from heddle.core.errors import HeddleError
from heddle.core.frames import Progress
from heddle.core.passages import Passage
from heddle.core.payloads import DecodePayload, PrefillPayload
from heddle.core.ports import PassageSource
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.graph.primitive import CollectConfig, DecodeConfig, SearchConfig
from heddle.passes.cycle_view import Prefetch, Provisional, Speculate, SpeculateDecode
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.folding import first_passages, passages_so_far
from heddle.runtime.guess import guess_kind, lane_of, readers_of, takes_stored_kv
from heddle.runtime.lane import Lane
from heddle.runtime.object_store import ObjectStore
from heddle.runtime.repeats import draft_of
from heddle.runtime.request import Guess, PrimitiveRun, Request, TextAhead
from heddle.runtime.request_table import RequestTable
from heddle.runtime.task_table import TaskRun
from heddle.runtime.values import as_passages, unique_passages

Key = tuple[int, str]  # the id of a request, and the prefill that waits


class Look(NamedTuple):
    """What a search has found by now, and a prefill that waits for it.

    `collect` joins the passages behind those of earlier turns; None = the prompt shows them alone.
    It is look `number` at this search, from 1; for the last `stable` looks the hits were the same.
    """

    task: TaskRun
    event: Progress
    prefill: PrimitiveRun
    collect: PrimitiveRun | None
    now_s: float
    number: int
    stable: int

    @property
    def request(self) -> Request:
        """Whose search it is."""
        return self.task.request

    @property
    def is_open(self) -> bool:
        """Whether the search still runs, by what has arrived since."""
        return not self.request.is_ended and self.prefill.waits == 1

    @property
    def probability(self) -> float:
        """Of the hits being the last."""
        return self.event.probability

    @property
    def chunk_ids(self) -> tuple[int, ...]:
        """The chunk ids of its partial hits, nearest first."""
        assert self.event.labels is not None, "a look without hits"
        return tuple(self.event.labels[0].tolist())

    def rest_s(self, now_s: float) -> float:
        """About how long the search still takes [s].

        Waiting counts as slow scanning: a lane that has made it wait is likely to go on so.
        """
        passed_s = self.now_s - self.task.sent_s
        rest_s = passed_s * (1 - self.event.fraction) / self.event.fraction
        return max(0.0, rest_s - (now_s - self.now_s))


class Lead(NamedTuple):
    """The first passages of a prompt, which stay, while its search goes on for other queries.

    `collect` joins them behind those of earlier turns; at `heard_s` the search's parts were about
    `left_s` [s] from their end.
    """

    request: Request
    search: PrimitiveRun
    collect: PrimitiveRun
    prefill: PrimitiveRun
    hits: tuple[Hits, ...]
    heard_s: float
    left_s: float
    number: int = 1
    stable: int = 0

    @property
    def is_open(self) -> bool:
        """Whether the prompt still waits for other passages."""
        return not self.request.is_ended and self.collect.primitive.name in self.request.runs

    @property
    def probability(self) -> float:
        """Of the passages being those of the prompt."""
        return 1.0

    @property
    def chunk_ids(self) -> tuple[int, ...]:
        """What was found, query by query."""
        return tuple(label for group in self.hits for label in group.labels.ravel().tolist())

    def rest_s(self, now_s: float) -> float:
        """About how long the search still takes [s]."""
        return max(0.0, self.left_s - (now_s - self.heard_s))


class Offer(NamedTuple):
    """A prompt as it would be now, with the passages of a look, and where it would go."""

    look: Look | Lead
    prompt: PrefillPayload
    lane: Lane


class Offered(NamedTuple):
    """Prompts that could be computed ahead, and those of which stored KV could be read ahead."""

    prompts: tuple[Provisional, ...]
    stored: tuple[Provisional, ...]


@dataclass(slots=True)
class Speculator:
    """Makes prompts of partial hits, and sends those that a cycle pass chooses.

    A guess is a task whose end no primitive waits for, and it takes no credit. It is cancelled when
    its prompt is sent, when its request ends, or when the hits change.

    Args:
        dispatcher: builds prompts and knows their lane.
        requests: where a request ends whose prompt breaks an invariant.
        passages: turns chunk ids into passages; None = they are nothing but ids.

    Where a request's prompts take stored KV they are offered to have that read from disk instead.

    Mutates: the guesses of prefills that wait, the task table.
    """

    dispatcher: Dispatcher
    requests: RequestTable
    passages: PassageSource | None
    _looks: dict[Key, Look | Lead] = field(default_factory=dict)  # the newest of each prefill
    _offers: dict[Key, Offer | None] = field(default_factory=dict)  # None = it can't be made
    _read: dict[Key, tuple[int, ...]] = field(default_factory=dict)  # passages whose KV was read

    def hear(self, task: TaskRun, event: Progress, now_s: float) -> None:
        """Take in what a search has found by now, and how likely that is to stay."""
        if not event.probability or not 0 < event.fraction < 1:
            return
        if not self.dispatcher.may_look(task.request):
            return
        for reader in readers_of(task.request, task.run):
            if reader.waits_alone:
                key = task.request.id, reader.prefill.primitive.name
                self._take(key, Look(task, event, *reader, now_s, 1, 0))

    def hear_rows(self, request: Request, search: PrimitiveRun, now_s: float) -> None:
        """Take in that some queries of a search are answered, if a prompt can begin with them."""
        if not self.dispatcher.may_look(request):
            return
        hits = tuple(part for part in search.first_parts() if isinstance(part, Hits))
        if not hits:
            return
        rest_s = self.dispatcher.lane_for(PrimitiveKind.SEARCHING).stage_s or 0.0
        for collect in _open_readers(request, search):
            for prefill in _open_readers(request, collect):
                key = request.id, prefill.primitive.name
                self._take(key, Lead(request, search, collect, prefill, hits, now_s, rest_s))

    def _take(self, key: Key, look: Look | Lead) -> None:
        """Keep a look as the newest of a prefill; a prompt that shows the same stays offered."""
        before = self._looks.get(key)
        if before is not None:
            is_same = before.chunk_ids == look.chunk_ids
            stable = before.stable + 1 if is_same else 0
            look = look._replace(number=before.number + 1, stable=stable)
            if not is_same:
                self._offers.pop(key, None)
        self._looks[key] = look

    def offered(self, now_s: float) -> Offered:
        """Return the prompts that could be computed ahead now, by what searches have told.

        They are made here, when all that has arrived is known: a prompt costs the runtime more
        than all else, and none is made while its engine is busy until the search ends.
        """
        for key in [key for key, look in self._looks.items() if not look.is_open]:
            del self._looks[key]
            self._offers.pop(key, None)
            self._read.pop(key, None)
        prompts: list[Provisional] = []
        stored: list[Provisional] = []
        for key, look in self._looks.items():
            guard = partial(self.requests.guard, look.request, now_s)
            if takes_stored_kv(look.request):
                guard(self._consider_kv, key, look, stored, now_s)
                continue
            if look.prefill.guess is not None:
                guard(self._take_back, look, now_s)
            if self._may_begin(look, now_s):
                guard(self._consider, key, look, prompts, now_s)
        return Offered(*(self._of_open(found) for found in (prompts, stored)))

    def _may_begin(self, look: Look | Lead, now_s: float) -> bool:
        """Whether no guess stands, and the engine is free before the search ends.

        Under load it is not, for every look in every cycle: this is asked before what takes longer.
        """
        if look.prefill.guess is not None or look.request.is_ended:
            return False
        return self.dispatcher.lane_for(PrimitiveKind.PREFILLING).work_s < look.rest_s(now_s)

    def _of_open(self, found: Sequence[Provisional]) -> tuple[Provisional, ...]:
        return tuple(prompt for prompt in found if prompt.request_id in self.requests.open)

    def begin(self, edit: Speculate, now_s: float) -> None:
        """Send a prompt that was offered ahead."""
        offer = self._offers[edit.provisional.key]
        assert offer is not None, "a prompt that can't be made was chosen"
        if offer.look.prefill.guess is not None:
            return  # another pass has chosen it, too
        look, prompt, port = offer.look, offer.prompt, offer.lane.port
        task_id = self._send(offer, look.prefill, prompt, 0, now_s)
        look.prefill.guess = Guess(
            task_id,
            look.chunk_ids,
            prompt.token_ids,
            port.name,
            port.epoch,
            lane_of(port, task_id),
            edit.provisional.probability,
            edit.gain_s,
            now_s,
        )

    def read_kv(self, edit: Prefetch, now_s: float) -> None:
        """Have the engine read what is stored of a prompt's passages; the prompt is made here."""
        key = edit.provisional.key
        look = self._looks[key]
        if self._read.get(key) == look.chunk_ids:
            return  # another pass has chosen it, too
        self._read[key] = look.chunk_ids
        self.requests.guard(look.request, now_s, self._send_load, look)

    def _send_load(self, look: Look | Lead) -> None:
        prompt = self._prompt(look)
        if prompt is None:
            return
        request, prefill = look.request, look.prefill
        if prefill.load_id is None:
            prefill.load_id = self.dispatcher.tasks.new_id()
        port = self.dispatcher.lane_for(PrimitiveKind.PREFILLING).port
        request.loads[prefill.load_id] = port
        port.send(LoadKv(prefill.load_id, prompt))
        request.receipt.kv_prefetches += 1

    def write_on(self, edit: SpeculateDecode, now_s: float) -> None:
        """Send a decode behind a prompt that was sent ahead in this cycle; else do nothing."""
        offer = self._offers[edit.provisional.key]
        assert offer is not None, "a prompt that can't be made was chosen"
        guess = offer.look.prefill.guess
        decode = _rider(offer.look)
        if guess is None or decode is None or guess.sent_s != now_s or guess.ahead is not None:
            return
        assert isinstance(decode.primitive.config, DecodeConfig), "a rider is a decode"
        payload = DecodePayload(
            guess.task_id,
            decode.primitive.config.sampling,
            draft=draft_of(offer.look.request, decode),
            rows=0,
        )
        guess.ahead = TextAhead(self._send(offer, decode, payload, 1, now_s))
        decode.guess = guess

    def _send(
        self,
        offer: Offer,
        run: PrimitiveRun,
        payload: PrefillPayload | DecodePayload,
        report_every: int,
        now_s: float,
    ) -> int:
        """Send what takes no credit, and whose end is only noted; return its task."""
        tasks = self.dispatcher.tasks
        task_id = tasks.send(
            offer.lane,
            offer.look.request,
            run,
            payload,
            credit_rows=0,
            report_every=report_every,
            now_s=now_s,
        )
        tasks.open[task_id].is_detached = True
        return task_id

    def forget_looks(self) -> None:
        """Forget all looks: no search is under way."""
        self._looks.clear()
        self._offers.clear()
        self._read.clear()

    def _take_back(self, look: Look | Lead, now_s: float) -> None:
        """End a guess whose hits have changed; a prompt goes on from its first passages."""
        guess, is_right = look.prefill.guess, isinstance(look, Lead)
        if guess is None or guess.chunk_ids == look.chunk_ids:
            return
        if is_right and not self.dispatcher.lane_for(PrimitiveKind.PREFILLING).is_idle:
            return  # the guess is computed first
        self.dispatcher.end_guess(look.request, look.prefill, now_s, is_adopted=is_right)

    def _consider(
        self, key: Key, look: Look | Lead, found: list[Provisional], now_s: float
    ) -> None:
        """Offer a prompt where one would pay: making it takes the runtime long."""
        lane = self.dispatcher.lane_for(PrimitiveKind.PREFILLING)
        kind = guess_kind(look.request, look.prefill, lane.port.name)
        win_rate = self.dispatcher.win_rates.ratio(kind, now_s)
        if not lane.may_gain(look.probability * win_rate, look.rest_s(now_s)):
            return
        offered = self._offer(key, look, lane, now_s)
        if offered is None:
            return
        decode = _rider(look)
        config = None if decode is None else decode.primitive.config
        found.append(
            replace(
                offered,
                win_rate=win_rate,
                decode_tokens=config.sampling.max_tokens if isinstance(config, DecodeConfig) else 0,
            )
        )

    def _consider_kv(
        self, key: Key, look: Look | Lead, found: list[Provisional], now_s: float
    ) -> None:
        """Offer a prompt whose passages' KV was not read ahead yet, where some lies on disk."""
        if self._read.get(key) == look.chunk_ids or not self.dispatcher.may_read_kv(look.request):
            return
        lane = self.dispatcher.lane_for(PrimitiveKind.PREFILLING)
        found.append(_provisional(look, lane, 0, now_s))

    def _offer(self, key: Key, look: Look | Lead, lane: Lane, now_s: float) -> Provisional | None:
        """Offer a prompt with the passages of a look; None where it can't be made."""
        if key not in self._offers:
            prompt = self._prompt(look)
            self._offers[key] = None if prompt is None else Offer(look, prompt, lane)
        offer = self._offers[key]
        if offer is None:
            return None
        self._offers[key] = offer = Offer(look, offer.prompt, lane)
        return _provisional(look, lane, len(offer.prompt.token_ids), now_s)

    def _prompt(self, look: Look | Lead) -> PrefillPayload | None:
        """Return the prompt with these hits; None where it takes long to make.

        None, too, where it can't be built, as itself will tell.
        """
        try:
            return self._lead(look) if isinstance(look, Lead) else self._guess(look)
        except HeddleError:
            return None

    def _guess(self, look: Look) -> PrefillPayload | None:
        request, search = look.request, look.task.run.primitive
        assert isinstance(search.config, SearchConfig), f"{search.name!r} is no search"
        found = passages_so_far(look.event, search.config.topk, self.passages, request.tenant)
        store = request.store.with_value(search.writes[0], found)
        if look.collect is not None:
            store = _collected(store, look.collect, found)
        prefill = look.prefill.primitive
        if self.dispatcher.long_prompts.has_long_text(prefill, store):
            return None
        return self.dispatcher.guess(request, prefill, store)

    def _lead(self, lead: Lead) -> PrefillPayload:
        request, search = lead.request, lead.search.primitive
        assert isinstance(search.config, SearchConfig), f"{search.name!r} is no search"
        found = first_passages(lead.hits, search.config, self.passages, request.tenant)
        store = _collected(request.store, lead.collect, found)
        key = lead.collect.primitive.writes[0]
        prompt = self.dispatcher.lead(request, lead.prefill.primitive, key, store)
        return replace(prompt, reuse=request.kv_reuse) if takes_stored_kv(request) else prompt


def _provisional(look: Look | Lead, lane: Lane, tokens: int, now_s: float) -> Provisional:
    return Provisional(
        look.request.id,
        look.prefill.primitive.name,
        lane.port.name,
        tokens,
        look.probability,
        look.rest_s(now_s),
        chunk_ids=look.chunk_ids,
        looks=look.number,
        looks_stable=look.stable,
    )


def _collected(store: ObjectStore, collect: PrimitiveRun, found: Sequence[Passage]) -> ObjectStore:
    """Return a store in which passages are joined behind those of earlier turns."""
    primitive = collect.primitive
    assert isinstance(primitive.config, CollectConfig), f"{primitive.name!r} joins nothing"
    earlier = [as_passages(store.get(part.key)) for part in primitive.config.parts[:-1]]
    return store.with_value(primitive.writes[0], unique_passages([*earlier, tuple(found)]))


def _rider(look: Look | Lead) -> PrimitiveRun | None:
    """Return the decode that may go on behind a prompt ahead of its search.

    None behind the first passages of a prompt, and where readers take its list item by item: these
    would have to be held back as well. None, too, where it writes a part of a text.
    """
    decode = look.request.runs.get(look.prefill.plan.rider or "")
    if isinstance(look, Lead) or decode is None or decode.plan.items_to:
        return None
    config = decode.primitive.config
    return decode if isinstance(config, DecodeConfig) and not config.is_round else None


def _open_readers(request: Request, run: PrimitiveRun) -> Iterator[PrimitiveRun]:
    """Yield what may begin with a part of what a primitive writes."""
    for name in run.plan.items_to:
        if name in request.runs:
            yield request.runs[name]
