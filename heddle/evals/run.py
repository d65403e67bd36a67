"""Running cases on a server: many at once, and a failure of one is no failure of the others."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.app.application import Submits
from heddle.core.errors import Busy, ConfigError, HeddleError, WorkflowError
from heddle.evals.context import Case
from heddle.runtime.events import Answer
from heddle.runtime.handle import Handle
from heddle.workflow.workflow import Workflow

IN_FLIGHT_MAX: Final = 32  # twice what an engine runs at once, so that it never waits for us


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case: an answer, or the error that it ended with."""

    case: Case
    answer: Answer | None
    error: str = ""


def run_cases(
    server: Submits,
    workflow: Workflow,
    cases: Sequence[Case],
    *,
    on_outcome: Callable[[Outcome], None],
    in_flight_max: int = IN_FLIGHT_MAX,
) -> tuple[Outcome, ...]:
    """Run every case and return the outcomes in the cases' order.

    Raises:
        ConfigError, WorkflowError: the workflow can't run on this server at all.
        Busy: the server is full of other requests.
    """
    outcomes: list[Outcome] = []
    running: deque[tuple[Case, Handle | HeddleError]] = deque()

    def finish_oldest() -> None:
        outcome = _outcome(*running.popleft())
        outcomes.append(outcome)
        on_outcome(outcome)

    try:
        for case in cases:
            while len(running) >= in_flight_max:
                finish_oldest()
            while True:
                try:
                    running.append((case, _submitted(server, workflow, case)))
                    break
                except Busy:
                    if not running:
                        raise
                    finish_oldest()
        while running:
            finish_oldest()
    finally:
        for _, handle in running:
            if isinstance(handle, Handle) and not handle.is_done:
                handle.cancel_soon()
    return tuple(outcomes)


def _submitted(server: Submits, workflow: Workflow, case: Case) -> Handle | HeddleError:
    """Submit a case; a refusal that concerns only this question is its outcome."""
    try:
        return server.submit(workflow, case.inputs)
    except (Busy, ConfigError, WorkflowError):
        raise
    except HeddleError as error:
        return error


def _outcome(case: Case, handle: Handle | HeddleError) -> Outcome:
    if isinstance(handle, HeddleError):
        return Outcome(case, None, str(handle))
    try:
        return Outcome(case, handle.result())
    except HeddleError as error:
        return Outcome(case, None, str(error))
