"""The stages that a request's answer waited for, one after another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from heddle.exporters.stage_times import StageTime

SAME_S: Final = 1e-9  # times that differ by less are of one moment


@dataclass(frozen=True, slots=True)
class PathPart:
    """A stage on the path, and what lies between the end of the one before and its own [s].

    `between_s` is neither a stage's wait nor its work: callable edges, joined passages, a workflow
    function's own code, a prompt that is being made. Then it waited for its engine for `waited_s`,
    and ran for `ran_s`.
    """

    stage: StageTime
    between_s: float
    waited_s: float
    ran_s: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The parts from a request's arrival to its answer; `rest_s` follows the last of them [s]."""

    parts: tuple[PathPart, ...]
    rest_s: float


def critical_path(times: Sequence[StageTime], latency_s: float) -> CriticalPath:
    """Return the path back from the stage that ended last.

    A stage is free to run the moment its last input is there. So the stage that ended last before
    that moment is the one that it waited for. All parts with the rest add up to `latency_s`.

    Args:
        times: the stages of one request.
        latency_s: from its arrival to its answer [s].
    """
    path: list[PathPart] = []
    left = sorted(times, key=lambda time: time.span.done_s)
    following = left.pop() if left else None
    end_s = 0.0 if following is None else following.span.done_s
    while following is not None:
        stage = following
        while left and left[-1].span.done_s > stage.free_s + SAME_S:
            left.pop()
        following = left.pop() if left else None
        before_s = 0.0 if following is None else following.span.done_s
        path.append(
            PathPart(
                stage,
                max(0.0, stage.free_s - before_s),
                stage.begun_s - stage.free_s,
                stage.ran_s,
            )
        )
    return CriticalPath(tuple(reversed(path)), max(0.0, latency_s - end_s))
