"""Watch over a lane: is it alive, is a step hung, may it be restarted? Pure; a host feeds it."""

import re
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from heddle.core.errors import ConfigError

PROGRESS_SHARE = 0.5
OUTSIDE: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
CRASH: Final = re.compile(
    rf"was lost \((?:hung:|exit code (?:[1-9]|-\d+(?!\d|, (?:{'|'.join(OUTSIDE)}))))"
)
WHILE_STARTING: Final = "while it started: "
"""How the reason starts where a lane was lost before it had built its engines again."""
LANE_LOST = "lane lost:"
"""How the message of a `Failed` starts whose task a lost lane can't answer any more."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """When a lane counts as dead or hung, and how often it is restarted.

    Args:
        heartbeat_s: how often the lane says that it lives [s].
        silence_s_max: how long a lane may be silent before it counts as dead [s] ...
        crowded_s_max: ... and how long while its process computes or waits for a core [s].
        hang_factor: a step is hung when it runs longer than this times its prediction ...
        hang_margin_s: ... plus this [s].
        start_s_max: how long a lane may take to build its engines [s].
        restarts_max: restarts within `restart_window_s` before the lane is given up.
        backoff_s: pause before the first restart; doubles with each one in the window [s].
        again_s: pause after which a lane that was given up is started once more [s]; None = never.
        close_s_max: how long a lane may take to leave before it is killed [s].
    Raises: ConfigError: a limit is not positive, or silence is no longer than a heartbeat.
    """

    heartbeat_s: float = 0.5
    silence_s_max: float = 2.0
    crowded_s_max: float = 30.0
    hang_factor: float = 10.0
    hang_margin_s: float = 2.0
    start_s_max: float = 180.0
    restarts_max: int = 5
    restart_window_s: float = 60.0
    backoff_s: float = 0.1
    backoff_s_max: float = 5.0
    close_s_max: float = 3.0
    again_s: float | None = None

    def __post_init__(self) -> None:
        positive = (
            "heartbeat_s",
            "hang_factor",
            "hang_margin_s",
            "start_s_max",
            "restart_window_s",
            "backoff_s",
            "close_s_max",
        )
        for name in (*positive, *(("again_s",) if self.again_s is not None else ())):
            if not getattr(self, name) > 0:
                raise ConfigError(f"LaneLimits.{name} is {getattr(self, name)}: set it above 0")
        if self.restarts_max < 0:
            raise ConfigError(
                f"LaneLimits.restarts_max is {self.restarts_max}: set it to 0 or more"
            )
        if self.silence_s_max <= self.heartbeat_s:
            raise ConfigError(
                f"LaneLimits.silence_s_max is {self.silence_s_max}: "
                f"set it above heartbeat_s ({self.heartbeat_s})"
            )

    def step_s_max(self, predicted_s: float) -> float:
        """Return how long a step with this prediction may run before it counts as hung [s]."""
        return self.hang_factor * predicted_s + self.hang_margin_s


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A lane's sign of life; `engine` is empty between steps.

    `step_s` is how long the present step has been running, `predicted_s` how long its engine
    thought that it would take; both in seconds of the lane's own clock.
    """

    engine: str = ""
    step_s: float = 0.0
    predicted_s: float = 0.0


class LaneState(Enum):
    """Where a lane is in its life."""

    STARTING = "starting"  # its first process builds the engines
    READY = "ready"
    LOST = "lost"  # the process is gone; the next one is started after a pause
    RESTARTING = "restarting"  # a later process builds the engines
    FAILED = "failed"  # given up: every task that is sent fails at once
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class LaneHealth:
    """What `/health` says about a lane.

    `reason` is why it was lost the last time, or empty; `place` the node that it runs on, empty =
    the server's own.
    """

    state: LaneState
    epoch: int
    restarts: int
    pid: int | None
    last_heartbeat_age_s: float
    reason: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the lane again as `epoch`, `backoff_s` from now."""

    epoch: int
    backoff_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Leave the lane down; `reason` says why in words.

    `again` starts it once more after its pause; None = never.
    """

    reason: str
    again: Restart | None = None


Verdict = Restart | GiveUp


def lost_message(lane: str, reason: str, verdict: Verdict) -> str:
    """Return the message of the Failed events of a lost lane; starts with LANE_LOST.

    No two deaths of a lane have the same one.
    """
    match verdict:
        case Restart(epoch=epoch):
            return f"{LANE_LOST} lane {lane} was lost ({reason}); restarted as epoch {epoch}"
        case GiveUp(reason=why, again=again):
            why += "" if again is None else f" as epoch {again.epoch}"
            return f"{LANE_LOST} lane {lane} was lost ({reason}); {why}"


def refused_message(lost: str) -> str:
    """Return the message of Failed events of tasks that came after a lane was given up.

    They were not in flight when it died, so theirs is no `is_death`.
    """
    return f"{LANE_LOST} not sent, for{lost.removeprefix(LANE_LOST)}"


def is_death(message: str) -> bool:
    """Whether the message of a `Failed` says that its task was in flight when its lane died.

    What waits for a lane that dies while it starts has not reached it.
    """
    is_loss = message.startswith(f"{LANE_LOST} lane ")
    return is_loss and f" was lost ({WHILE_STARTING}" not in message


def is_crash(message: str) -> bool:
    """Whether the message of a lane's death says that its own work may have ended it.

    So do a crash's signal, an exit code and a step that hangs. SIGKILL, silence, a lost node and
    the like may come from outside.
    """
    return is_death(message) and CRASH.search(message) is not None


@dataclass(slots=True)
class LaneSupervisor:
    """The state of one lane, fed with signs of life and exits; reads no clock.

    Mutates: every method but `next_check_s` and `health` advances the state.
    """

    lane: str
    limits: LaneLimits = field(default_factory=LaneLimits)
    state: LaneState = LaneState.STARTING
    epoch: int = 1
    restarts: int = 0
    reason: str = ""
    _since_s: float = 0.0
    _heard_s: float = 0.0
    _planned_s: float = float("inf")
    _excused_s: float = 0.0  # until when silence is none
    _beat: Heartbeat = field(default_factory=Heartbeat)
    _restarts_at_s: deque[float] = field(default_factory=deque)
    _is_tried: bool = False  # started once more after it was given up

    def spawned(self, now_s: float) -> None:
        """Note that a process was started for the present epoch."""
        self.state = LaneState.STARTING if self.epoch == 1 else LaneState.RESTARTING
        self._since_s = self._heard_s = now_s
        self._beat = Heartbeat()
        self._planned_s = self.next_check_s()

    def ready(self, now_s: float) -> None:
        """Note that the lane has built its engines."""
        self.state = LaneState.READY
        self._is_tried = False
        self.heard(now_s)

    def heard(self, now_s: float, beat: Heartbeat | None = None) -> None:
        """Note a sign of life: any message, or a heartbeat, whose report is kept."""
        self._heard_s = now_s
        self._excused_s = 0.0
        if beat is not None:
            self._beat = beat

    def is_silent(self, now_s: float) -> bool:
        """Whether the lane is silent, and `fault` wants to know its process's progress."""
        return self.state is LaneState.READY and self._silence_s(now_s) >= self.limits.silence_s_max

    def fault(self, now_s: float, progress_s: float = 0.0) -> str | None:
        """Return why the lane must be killed now, or None while it is well.

        `progress_s` is how long its process has computed or waited for a core since it was heard,
        over all its threads [s]. One that did so for half of the time is no dead one: the machine
        is crowded, or a library holds the interpreter.
        """
        self._forgive_own_absence(now_s)
        self._planned_s = max(now_s, self.next_check_s())
        if self.state in (LaneState.STARTING, LaneState.RESTARTING):
            if now_s - self._since_s <= self.limits.start_s_max:
                return None
            building = f", still building engine {self._beat.engine}" if self._beat.engine else ""
            return f"it did not start within {self.limits.start_s_max:g} s{building}"
        if self.state is not LaneState.READY:
            return None
        beat = self._beat
        if beat.engine and beat.step_s > self.limits.step_s_max(beat.predicted_s):
            return (
                f"hung: a step of engine {beat.engine} ran {beat.step_s:.1f} s, "
                f"predicted {beat.predicted_s:.3f} s"
            )
        if not self.is_silent(now_s):
            return None
        silence_s = self._silence_s(now_s)
        if progress_s >= silence_s * PROGRESS_SHARE and silence_s < self.limits.crowded_s_max:
            self._excused_s = now_s + self.limits.heartbeat_s
            self._planned_s = self._excused_s
            return None
        return f"no sign of life for {silence_s:.1f} s"

    def _silence_s(self, now_s: float) -> float:
        return now_s - self._heard_s

    def next_check_s(self) -> float:
        """Return when `fault` has to be asked again even if nothing is heard [s]."""
        if self.state in (LaneState.STARTING, LaneState.RESTARTING):
            return self._since_s + self.limits.start_s_max
        if self.state is LaneState.READY:
            return max(self._heard_s + self.limits.silence_s_max, self._excused_s)
        return float("inf")

    def lost(self, reason: str, now_s: float) -> Verdict:
        """Note that the process is gone and decide what happens next.

        A lane that never got ready is not restarted: what stopped it would stop it again.
        """
        self.reason = reason
        if self.state is LaneState.STARTING:
            self.state = LaneState.FAILED
            return GiveUp("it never got ready")
        recent = self._restarts_at_s
        while recent and now_s - recent[0] > self.limits.restart_window_s:
            recent.popleft()
        if self._is_tried or len(recent) >= self.limits.restarts_max:
            return self._given_up(len(recent))
        backoff_s = min(self.limits.backoff_s * 2.0 ** len(recent), self.limits.backoff_s_max)
        recent.append(now_s)
        self.state = LaneState.LOST
        self.epoch += 1
        self.restarts += 1
        return Restart(self.epoch, backoff_s)

    def _given_up(self, restarts: int) -> GiveUp:
        self.state = LaneState.FAILED
        window = f"{self.limits.restart_window_s:g} s"
        why = f"given up after {restarts} restarts within {window}"
        if self._is_tried:
            why = "given up again"
        if self.limits.again_s is None:
            return GiveUp(why)
        self._is_tried = True
        self.epoch += 1
        self.restarts += 1
        again = Restart(self.epoch, self.limits.again_s)
        return GiveUp(f"{why}; tried once more in {self.limits.again_s:g} s", again)

    def watcher_failed(self, reason: str) -> GiveUp:
        """Note that the lane's watcher has stopped, and why: the lane counts as failed."""
        self.reason, self.state = reason, LaneState.FAILED
        return GiveUp("nobody watches over it any more")

    def closed(self) -> None:
        """Note that the lane was closed on purpose."""
        self.state = LaneState.CLOSED

    def health(self, now_s: float, pid: int | None, place: str = "") -> LaneHealth:
        """Return the state for people and `/health`."""
        age_s = max(0.0, now_s - self._heard_s)
        return LaneHealth(self.state, self.epoch, self.restarts, pid, age_s, self.reason, place)

    def _forgive_own_absence(self, now_s: float) -> None:
        # A check that comes late means that the watcher itself was stopped or starved (a paused
        # container, a debugger), and the lane perhaps with it: silence counts from now.
        if now_s - self._planned_s > self.limits.heartbeat_s:
            self._heard_s = now_s
