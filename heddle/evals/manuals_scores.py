"""The figures of `heddle eval manuals`: what a user of manuals sees."""

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.metrics.bootstrap import Estimate, estimate_mean
from heddle.evals.metrics.quotes import (
    Reply,
    declined,
    in_passages,
    invented,
    right_quote,
    right_span,
)

QUOTES_SHOWN: Final = 3
Metric = Callable[[Reply], float | None]
METRICS: Final[dict[str, Metric]] = {
    "right_quotes": right_quote,
    "right_quotes_of_3": lambda reply: right_quote(reply, QUOTES_SHOWN),
    "right_spans": right_span,
    "in_passages": in_passages,
    "declined": declined,
    "invented": invented,
}


def manuals_scores(replies: Sequence[Reply], seed: int) -> dict[str, Estimate]:
    """Return the mean of every metric that is defined for some reply, with its interval.

    `right_quotes`, `right_spans`, `in_passages` and `declined` are shares of the questions with
    an answer, `invented` is one of the questions without.
    """
    columns = {name: [metric(reply) for reply in replies] for name, metric in METRICS.items()}
    kept = {name: [v for v in values if v is not None] for name, values in columns.items()}
    return {name: estimate_mean(values, seed) for name, values in kept.items() if values}


def cpu_seconds(command: Sequence[str]) -> float:
    """Run a command to its end and return the CPU seconds of it and of its children.

    A child counts where the command waits for its end, as Heddle does for its lanes.

    Raises:
        InputError: the command failed; names its exit code.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # it is reaped: nothing is left to wait
    if process.returncode:
        raise InputError(f"{' '.join(command)} failed with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime
