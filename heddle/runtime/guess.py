"""A prompt that is computed ahead with passages that may not be its last."""

from collections.abc import Sequence

from heddle.core.commands import Cancel
from heddle.core.frames import Failed
from heddle.core.tasks import Optimizations
from heddle.graph.primitive import PrefillConfig, SearchConfig
from heddle.runtime.receipt import FallbackKind, Speculation
from heddle.runtime.request import PrimitiveRun, Request
from heddle.runtime.task_table import TaskTable


def guessable(request: Request, search: PrimitiveRun) -> Sequence[PrimitiveRun]:
    """Return the prefills whose prompts show what this search finds, and may be computed ahead.

    Where answers may be approximate by chunk KV, a prompt is not computed from its beginning, and
    a ranking by words is not known before the search is over.
    """
    config = search.primitive.config
    if not may_guess(request) or not isinstance(config, SearchConfig) or config.words:
        return ()
    waiting = (request.runs[name] for name in search.plan.after if name in request.runs)
    return [run for run in waiting if isinstance(run.primitive.config, PrefillConfig)]


def may_guess(request: Request) -> bool:
    """Whether prompts of a request may be computed ahead, from their beginning."""
    mode = request.optimizations
    is_fused = mode is Optimizations.APPROX and request.kv_reuse.is_approximate
    return mode is not Optimizations.OFF and not is_fused


def note_problem(prefill: PrimitiveRun, event: Failed) -> None:
    """Remember why what was sent ahead for a prefill failed, if that is what has failed."""
    if prefill.guess is not None and prefill.guess.task_id == event.task_id:
        prefill.guess.problem = event.message


def end_guess(
    tasks: TaskTable, request: Request, prefill: PrimitiveRun, now_s: float, *, is_adopted: bool
) -> None:
    """End what was computed ahead for a prefill, if anything was; `is_adopted`: it served.

    There is nothing to hand over: what was computed is in the lane's prefix index, for this prompt
    and any other that begins alike.

    Mutates: the guess is gone, the receipt tells of it.
    """
    guess, prefill.guess = prefill.guess, None
    if guess is None:
        return
    task = tasks.open.get(guess.task_id)
    if task is not None:
        task.lane.port.send(Cancel(guess.task_id))
    if guess.problem:
        note = f"{prefill.primitive.name} was not computed ahead: {guess.problem}"
        request.receipt.fall_back(FallbackKind.SPECULATION, note)
    request.receipt.speculations.append(
        Speculation(
            prefill.primitive.node,
            prefill.plan.turn,
            guess.probability,
            guess.gain_s,
            now_s - guess.sent_s,
            is_adopted,
        )
    )
