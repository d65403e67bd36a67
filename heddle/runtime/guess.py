"""A prompt that is computed ahead with passages that may not be its last."""

from collections.abc import Sequence
from typing import NamedTuple

from heddle.core.commands import Cancel
from heddle.core.degradation import DegradationKind
from heddle.core.frames import Done, Event, Failed, Progress
from heddle.core.ports import EnginePort, Placing
from heddle.core.results import Generated, Prefilled
from heddle.core.tasks import Optimizations
from heddle.costs.win_rate import WinRates
from heddle.graph.primitive import CollectConfig, PrefillConfig, SearchConfig
from heddle.runtime.receipt import Speculation
from heddle.runtime.request import Guess, PrimitiveRun, Request
from heddle.runtime.task_table import TaskTable


class Reader(NamedTuple):
    """A prefill whose prompt shows what a search finds; `collect` joins passages in between."""

    prefill: PrimitiveRun
    collect: PrimitiveRun | None = None

    @property
    def waits_alone(self) -> bool:
        """Whether the search is all that the prompt waits for."""
        return self.prefill.waits == 1 and (self.collect is None or self.collect.waits == 1)


def readers_of(request: Request, search: PrimitiveRun) -> Sequence[Reader]:
    """Return the prefills whose prompts show what this search finds.

    A ranking by words is not known before the search is over.
    """
    config = search.primitive.config
    if not isinstance(config, SearchConfig) or config.words:
        return ()
    found: list[Reader] = []
    for run in _waiting(request, search):
        if isinstance(run.primitive.config, PrefillConfig):
            found.append(Reader(run))
        elif isinstance(run.primitive.config, CollectConfig):
            behind = _waiting(request, run)
            found += [
                Reader(p, run) for p in behind if isinstance(p.primitive.config, PrefillConfig)
            ]
    return found


def _waiting(request: Request, run: PrimitiveRun) -> list[PrimitiveRun]:
    return [request.runs[name] for name in run.plan.after if name in request.runs]


def may_guess(request: Request) -> bool:
    """Whether prompts of a request may be computed ahead, from their beginning."""
    return request.optimizations is not Optimizations.OFF and not takes_stored_kv(request)


def takes_stored_kv(request: Request) -> bool:
    """Whether prompts of a request take the KV of chunks from a store."""
    return request.optimizations is Optimizations.APPROX and request.kv_reuse.is_approximate


def guess_kind(request: Request, prefill: PrimitiveRun, engine: str) -> tuple[str, ...]:
    """Return what guesses have in common whose outcomes are counted together."""
    return engine, request.workflow.name, prefill.primitive.node


def note_ahead(run: PrimitiveRun, event: Event) -> None:
    """Keep what an engine says of a guess, or of the decode behind it, if the event is of these.

    Mutates: the guess.
    """
    guess = run.guess
    if guess is None:
        return
    if event.task_id == guess.task_id:
        if isinstance(event, Failed):
            guess.problem = event.message
        elif isinstance(event, Done) and isinstance(event.result, Prefilled):
            guess.prefilled = event.result
    elif guess.ahead is not None and event.task_id == guess.ahead.task_id:
        match event:
            case Failed():
                guess.ahead.problem = event.message
            case Progress():
                guess.ahead.token_ids += event.token_ids
                guess.ahead.text += event.text
            case Done(result=Generated() as result):
                guess.ahead.result = result


def lane_of(port: EnginePort, task_id: int) -> str:
    """Return the lane of a task that was just sent: where its engine has several, one of these."""
    return port.lane_of(task_id) if isinstance(port, Placing) else port.name


def stop_guess(tasks: TaskTable, request: Request, prefill: PrimitiveRun) -> Guess | None:
    """Stop what is computed ahead for a prefill, and return it; None = nothing was.

    There is nothing to hand over: what was computed is in the lane's prefix index, for this prompt
    and any other that begins alike.

    Mutates: the guess is gone from its runs.
    """
    guess, prefill.guess = prefill.guess, None
    if guess is None:
        return None
    decode = request.runs.get(prefill.plan.rider or "")
    if decode is not None:
        decode.guess = None
    for task_id in (guess.task_id, *((guess.ahead.task_id,) if guess.ahead else ())):
        task = tasks.open.get(task_id)
        if task is not None:
            task.lane.port.send(Cancel(task_id))
    return guess


def settle_guess(
    rates: WinRates,
    request: Request,
    prefill: PrimitiveRun,
    guess: Guess,
    now_s: float,
    *,
    is_found: bool,
    is_shown: bool = False,
) -> None:
    """Note how a guess has ended: its prompt goes on from there, or its text was shown.

    Mutates: it stands in the receipt, and its outcome is counted.
    """
    is_adopted = is_found or is_shown
    if guess.problem:
        note = f"{prefill.primitive.name} was not computed ahead: {guess.problem}"
        request.receipt.degrade(DegradationKind.SPECULATION, note)
    elif guess.ahead is not None and guess.ahead.problem:
        note = f"nothing was written ahead behind {prefill.primitive.name}: {guess.ahead.problem}"
        request.receipt.degrade(DegradationKind.SPECULATION, note)
    kind = guess_kind(request, prefill, guess.engine)
    rates.learn(kind, guess.probability, now_s, has_won=is_adopted)
    request.receipt.speculations.append(
        Speculation(
            prefill.primitive.node,
            prefill.plan.turn,
            guess.probability,
            guess.gain_s,
            now_s - guess.sent_s,
            is_adopted,
            len(guess.token_ids),
            guess.tokens_written,
            (0 if is_found else _tokens_computed(guess))
            + (0 if is_adopted else guess.tokens_written),
        )
    )


def _tokens_computed(guess: Guess) -> int:
    """Return how many tokens of its prompt were computed, at most."""
    return len(guess.token_ids) - (guess.prefilled.tokens_reused if guess.prefilled else 0)
