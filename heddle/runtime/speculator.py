"""Prompts computed while their search still runs: what could be, and what is. (HedraRAG §4.3)"""

from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.core.errors import HeddleError
from heddle.core.frames import Progress
from heddle.core.payloads import PrefillPayload
from heddle.core.ports import PassageSource
from heddle.core.primitives import PrimitiveKind
from heddle.graph.primitive import SearchConfig
from heddle.passes.cycle_view import Provisional, Speculate
from heddle.runtime.dispatcher import Dispatcher
from heddle.runtime.folding import passages_so_far
from heddle.runtime.guess import end_guess, guessable
from heddle.runtime.lane import Lane
from heddle.runtime.request import Guess, PrimitiveRun, Request
from heddle.runtime.task_table import TaskRun


class Offer(NamedTuple):
    """A prompt as it would be now, whose it is and where it would go."""

    provisional: Provisional
    request: Request
    prefill: PrimitiveRun
    prompt: PrefillPayload
    lane: Lane

    @property
    def is_open(self) -> bool:
        """Whether the prompt's search still runs, by what has arrived since."""
        return not self.request.is_ended and self.prefill.waits == 1


@dataclass(slots=True)
class Speculator:
    """Makes prompts of partial hits, and sends those that a cycle pass chooses.

    A guess is a task whose end concerns nobody: it takes no credit, and its prompt takes it back
    when it is sent itself. That, a request that ends and hits that change are all its ends.

    Args:
        dispatcher: builds prompts and knows their lane.
        passages: turns chunk ids into passages; None = they are nothing but ids.

    Mutates: the guesses of prefills that wait, the task table.
    """

    dispatcher: Dispatcher
    passages: PassageSource | None
    _offers: dict[tuple[int, str], Offer] = field(default_factory=dict)  # a prefill's newest

    def hear(self, task: TaskRun, event: Progress, now_s: float) -> None:
        """Take in what a search has found by now, and how likely that is to stay."""
        if not event.probability or not 0 < event.fraction < 1:
            return
        for prefill in guessable(task.request, task.run):
            if prefill.waits == 1:  # the search is all that it waits for
                self._consider(task, event, prefill, now_s)

    def offered(self) -> tuple[Provisional, ...]:
        """Return the prompts whose searches have told something since these were forgotten."""
        return tuple(offer.provisional for offer in self._offers.values() if offer.is_open)

    def begin(self, edit: Speculate, now_s: float) -> None:
        """Send a prompt that was offered ahead."""
        provisional = edit.provisional
        offer = self._offers[provisional.request_id, provisional.prefill]
        request, prefill, prompt, lane = offer.request, offer.prefill, offer.prompt, offer.lane
        tasks = self.dispatcher.tasks
        task_id = tasks.send(lane, request, prefill, prompt, credit_rows=0, now_s=now_s)
        tasks.open[task_id].is_detached = True
        prefill.guess = Guess(
            task_id, prompt.token_ids, provisional.probability, edit.gain_s, now_s
        )

    def forget_offers(self) -> None:
        """Forget what was not chosen: the next look at a search tells more."""
        self._offers.clear()

    def _consider(
        self, task: TaskRun, event: Progress, prefill: PrimitiveRun, now_s: float
    ) -> None:
        request = task.request
        prompt = self._prompt(task, event, prefill)
        if prompt is None:
            return
        if prefill.guess is not None:
            if prefill.guess.token_ids == prompt.token_ids:
                return
            end_guess(self.dispatcher.tasks, request, prefill, prompt, now_s)
        lane = self.dispatcher.lane_for(PrimitiveKind.PREFILLING)
        # Waiting counts as slow scanning: a lane that has made it wait is likely to go on so.
        passed_s = now_s - task.sent_s
        provisional = Provisional(
            request.id,
            prefill.primitive.name,
            lane.port.name,
            len(prompt.token_ids),
            event.probability,
            rest_s=passed_s * (1 - event.fraction) / event.fraction,
        )
        offer = Offer(provisional, request, prefill, prompt, lane)
        self._offers[request.id, prefill.primitive.name] = offer

    def _prompt(
        self, task: TaskRun, event: Progress, prefill: PrimitiveRun
    ) -> PrefillPayload | None:
        """Return the prompt with these hits; None where it can't be built, as itself will tell."""
        request, search = task.request, task.run.primitive
        assert isinstance(search.config, SearchConfig), f"{search.name!r} is no search"
        found = passages_so_far(event, search.config.topk, self.passages, request.tenant)
        store = request.store.with_value(search.writes[0], found)
        try:
            return self.dispatcher.guess(request, prefill.primitive, store)
        except HeddleError:
            return None
