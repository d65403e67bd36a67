"""Who may come in: bounded, and honest about the wait. (WindVE §IV-A)"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heddle.core.errors import Busy, InputError
from heddle.runtime.answer_cache import AnswerCacheLimits
from heddle.workflow.template import QUESTION
from heddle.workflow.workflow import Workflow

SMOOTHING = 0.1


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """Bounds of one runtime.

    `requests_max` counts interactive and bulk requests together; bulk ones may fill at most
    `bulk_share` of it, so indexing never locks questions out. `retries_max` is per primitive.
    `answers` bounds the answers that are kept.
    """

    requests_max: int = 256
    bulk_share: float = 0.5
    question_chars_max: int = 32_768
    retries_max: int = 3
    deadline_s: float = 600.0
    answers: AnswerCacheLimits = field(default_factory=AnswerCacheLimits)


@dataclass(slots=True)
class Admission:
    """Counts live requests and predicts the wait when there are too many.

    Mutates: `enter` and `leave` keep the counts; `leave` updates the mean time between two
    completions, from which the wait is predicted.
    """

    limits: RuntimeLimits
    live: int = 0
    live_bulk: int = 0
    between_s: float | None = None
    last_leave_s: float | None = None

    def enter(self, is_bulk: bool) -> None:
        """Let a request in, or refuse it where the server is full.

        Raises:
            Busy: the runtime is full; nothing was started.
        """
        bulk_max = max(1, int(self.limits.requests_max * self.limits.bulk_share))
        if self.live >= self.limits.requests_max or (is_bulk and self.live_bulk >= bulk_max):
            raise Busy(
                f"{self.live} of {self.limits.requests_max} requests are in flight",
                wait_s=self.between_s or 1.0,
            )
        self.live += 1
        self.live_bulk += is_bulk

    def leave(self, is_bulk: bool, now_s: float) -> None:
        """Count a request out, and learn how long a full server's clients are to wait.

        That is the smoothed time between two requests that end (`Retry-After`).
        """
        self.live -= 1
        self.live_bulk -= is_bulk
        if self.last_leave_s is not None:
            between_s = now_s - self.last_leave_s
            known_s = between_s if self.between_s is None else self.between_s
            self.between_s = known_s + SMOOTHING * (between_s - known_s)
        # Idle time isn't service time: the next pair of completions starts anew.
        self.last_leave_s = now_s if self.live else None

    def check_inputs(self, workflow: Workflow, inputs: Mapping[str, object]) -> None:
        """Refuse inputs that a workflow can't be run with.

        Raises:
            InputError: an input is missing, unknown or too long, or the question is empty.
        """
        if missing := workflow.inputs - set(inputs):
            raise InputError(f"workflow {workflow.name!r} needs {', '.join(sorted(missing))}")
        if unknown := set(inputs) - workflow.inputs:
            raise InputError(
                f"workflow {workflow.name!r} has no input {', '.join(sorted(unknown))}; "
                f"it takes {', '.join(sorted(workflow.inputs))}"
            )
        for slot, value in inputs.items():
            if isinstance(value, str):
                may_be_empty = slot != QUESTION  # as a history is, before the first turn
                check_input_text(
                    value, slot, self.limits.question_chars_max, may_be_empty=may_be_empty
                )


def check_input_text(text: str, name: str, chars_max: int, *, may_be_empty: bool = False) -> None:
    """Refuse a text that no workflow can be asked.

    Raises:
        InputError: it is too long, or empty unless it `may_be_empty`; the message begins with
            `name`.
    """
    if not may_be_empty and not text.strip():
        raise InputError(f"{name} is empty: ask something")
    if len(text) > chars_max:
        raise InputError(
            f"{name} has {len(text):,} characters, the limit is {chars_max:,}: shorten it"
        )
