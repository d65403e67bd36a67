"""Prompts computed while their search still runs: what could be, and what is. (HedraRAG §4.3)"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.core.errors import HeddleError
from heddle.core.frames import Progress
from heddle.core.payloads import PrefillPayload
from heddle.core.ports import PassageSource
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits
from heddle.graph.primitive import CollectConfig, SearchConfig
from heddle.passes.cycle_view import Provisional, Speculate
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.folding import first_passages, passages_so_far
from heddle.runtime.guess import end_guess, guessable, may_guess
from heddle.runtime.lane import Lane
from heddle.runtime.request import Guess, PrimitiveRun, Request
from heddle.runtime.request_table import RequestTable
from heddle.runtime.task_table import TaskRun
from heddle.runtime.values import as_passages, unique_passages


class Look(NamedTuple):
    """What a search has found by now, and a prefill that waits for it."""

    task: TaskRun
    event: Progress
    prefill: PrimitiveRun
    now_s: float

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
        """What it has found, nearest first."""
        assert self.event.labels is not None, "a look without hits"
        return tuple(self.event.labels[0].tolist())

    @property
    def rest_s(self) -> float:
        """About how long the search still takes [s].

        Waiting counts as slow scanning: a lane that has made it wait is likely to go on so.
        """
        passed_s = self.now_s - self.task.sent_s
        return passed_s * (1 - self.event.fraction) / self.event.fraction


class Lead(NamedTuple):
    """The first passages of a prompt, which stay, while its search goes on for other queries.

    `collect` joins them behind those of earlier turns; the search's parts are about `rest_s` [s]
    from their end.
    """

    request: Request
    search: PrimitiveRun
    collect: PrimitiveRun
    prefill: PrimitiveRun
    hits: tuple[Hits, ...]
    rest_s: float

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


class Offer(NamedTuple):
    """A prompt as it would be now, what it shows, whose it is and where it would go."""

    provisional: Provisional
    chunk_ids: tuple[int, ...]
    request: Request
    prefill: PrimitiveRun
    prompt: PrefillPayload
    lane: Lane


@dataclass(slots=True)
class Speculator:
    """Makes prompts of partial hits, and sends those that a cycle pass chooses.

    A guess is a task whose end concerns nobody: it takes no credit, and its prompt takes it back
    when it is sent itself. That, a request that ends and hits that change are all its ends.

    Args:
        dispatcher: builds prompts and knows their lane.
        requests: where a request ends whose prompt breaks an invariant.
        passages: turns chunk ids into passages; None = they are nothing but ids.

    Mutates: the guesses of prefills that wait, the task table.
    """

    dispatcher: Dispatcher
    requests: RequestTable
    passages: PassageSource | None
    _looks: dict[tuple[int, str], Look | Lead] = field(default_factory=dict)  # a prefill's newest
    _offers: dict[tuple[int, str], Offer] = field(default_factory=dict)

    def hear(self, task: TaskRun, event: Progress, now_s: float) -> None:
        """Take in what a search has found by now, and how likely that is to stay."""
        if not event.probability or not 0 < event.fraction < 1:
            return
        for prefill in guessable(task.request, task.run):
            if prefill.waits == 1:  # the search is all that it waits for
                self._looks[task.request.id, prefill.primitive.name] = Look(
                    task, event, prefill, now_s
                )

    def hear_rows(self, request: Request, search: PrimitiveRun) -> None:
        """Take in that some queries of a search are answered, if a prompt can begin with them."""
        if not may_guess(request):
            return
        rest_s = self.dispatcher.lane_for(PrimitiveKind.SEARCHING).stage_s or 0.0
        hits = tuple(part for part in search.first_parts() if isinstance(part, Hits))
        for collect in _open_readers(request, search) if hits else ():
            for prefill in _open_readers(request, collect):
                key = request.id, prefill.primitive.name
                self._looks[key] = Lead(request, search, collect, prefill, hits, rest_s)

    def offered(self, now_s: float) -> tuple[Provisional, ...]:
        """Return the prompts that could be computed ahead now, by what searches have told.

        They are made here, when all that has arrived is known: a prompt costs the runtime more
        than all else, and there is none to make while its engine has something to do.
        """
        for look in self._looks.values():
            if look.is_open:
                self.requests.guard(look.request, now_s, self._consider, look, now_s)
        return tuple(offer.provisional for offer in self._offers.values())

    def begin(self, edit: Speculate, now_s: float) -> None:
        """Send a prompt that was offered ahead."""
        provisional = edit.provisional
        offer = self._offers[provisional.request_id, provisional.prefill]
        request, prefill, prompt, port = offer.request, offer.prefill, offer.prompt, offer.lane.port
        tasks = self.dispatcher.tasks
        task_id = tasks.send(offer.lane, request, prefill, prompt, credit_rows=0, now_s=now_s)
        tasks.open[task_id].is_detached = True
        prefill.guess = Guess(
            task_id,
            offer.chunk_ids,
            prompt.token_ids,
            port.name,
            port.epoch,
            provisional.probability,
            edit.gain_s,
            now_s,
        )

    def forget_looks(self) -> None:
        """Forget what was not chosen: the next look at a search tells more."""
        self._looks.clear()
        self._offers.clear()

    def _consider(self, look: Look | Lead, now_s: float) -> None:
        """Take a guess back whose hits have changed; offer a prompt where one could begin."""
        request, prefill = look.request, look.prefill
        lane = self.dispatcher.lane_for(PrimitiveKind.PREFILLING)
        if prefill.guess is not None:
            is_right = isinstance(look, Lead)  # the prompt goes on from it, once it is computed
            if prefill.guess.chunk_ids == look.chunk_ids or (is_right and not lane.is_idle):
                return
            end_guess(self.dispatcher.tasks, request, prefill, now_s, is_adopted=is_right)
        prompt = self._prompt(look) if lane.is_idle else None
        if prompt is None:
            return
        name = prefill.primitive.name
        provisional = Provisional(
            request.id,
            name,
            lane.port.name,
            len(prompt.token_ids),
            look.probability,
            look.rest_s,
        )
        self._offers[request.id, name] = Offer(
            provisional, look.chunk_ids, request, prefill, prompt, lane
        )

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
        prefill = look.prefill.primitive
        if self.dispatcher.long_prompts.has_long_text(prefill, store):
            return None
        return self.dispatcher.guess(request, prefill, store)

    def _lead(self, lead: Lead) -> PrefillPayload:
        request, search = lead.request, lead.search.primitive
        collect = lead.collect.primitive
        assert isinstance(search.config, SearchConfig), f"{search.name!r} is no search"
        assert isinstance(collect.config, CollectConfig), f"{collect.name!r} joins nothing"
        found = first_passages(lead.hits, search.config, self.passages, request.tenant)
        earlier = [as_passages(request.store.get(p.key)) for p in collect.config.parts[:-1]]
        key = collect.writes[0]
        store = request.store.with_value(key, unique_passages([*earlier, found]))
        return self.dispatcher.lead(request, lead.prefill.primitive, key, store)


def _open_readers(request: Request, run: PrimitiveRun) -> Iterator[PrimitiveRun]:
    """Yield what may begin with a part of what a primitive writes."""
    for name in run.plan.items_to:
        if name in request.runs:
            yield request.runs[name]
