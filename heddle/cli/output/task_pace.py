"""The pace of a task: when a plain line of progress is due, and its rate and time left."""

from dataclasses import dataclass
from typing import Final

LINES_MAX: Final = 10  # of a short task: about one for each tenth
LINE_EVERY_S: Final = 15.0  # a long task reports at least this often, when something is done
PAUSE_S_MIN: Final = 1.0  # between two lines of a task, but for the first and the last
RATE_AFTER_S: Final = 1.0  # a rate over less time says little


@dataclass(slots=True)
class TaskPace:
    """How fast one task goes.

    The rate counts from the first units that are done, before which models may be loading, once as
    much time has passed since them as before. Until then it counts from the beginning: units that
    are done side by side end together, and a rate between two of their ends would say nothing.

    Args:
        begun_at: units that were done at its first sight.
        begun_s: the time then [s].

    Mutates: `is_due` keeps what was printed last, and when the first units were done.
    """

    begun_at: int
    begun_s: float
    _first: tuple[int, float] | None = None
    _tenth: int = -1
    _printed_s: float = 0.0
    _is_over: bool = False

    def is_due(self, done: int, total: int, now_s: float) -> bool:
        """Whether to print a line now: the first, the last, each tenth, and every 15 s.

        Args:
            done: units that are done.
            total: units in all.
            now_s: the time [s].
        """
        if self._first is None and done > self.begun_at:
            self._first = done, now_s
        tenth = done * LINES_MAX // max(1, total)
        is_first, is_last = self._tenth < 0, done >= total and not self._is_over
        waited_s = now_s - self._printed_s
        is_next = tenth != self._tenth and waited_s >= PAUSE_S_MIN and not self._is_over
        if not (is_first or is_last or is_next or waited_s >= LINE_EVERY_S):
            return False
        self._tenth, self._printed_s, self._is_over = tenth, now_s, done >= total
        return True

    def words(self, done: int, total: int, now_s: float) -> str:
        """Return the rate and the time left, or at the end the time it took; "" = unknown."""
        if done >= total:
            seconds = now_s - self.begun_s
            return f"took {duration(seconds)}" if seconds >= RATE_AFTER_S else ""
        first, first_s = self._first or (done, now_s)
        before_s, since_s = first_s - self.begun_s, now_s - first_s
        if since_s < RATE_AFTER_S or done <= first:
            return ""
        if since_s < before_s:
            rate = (done - self.begun_at) / (before_s + since_s)
        else:
            rate = (done - first) / since_s
        return f"{_rate(rate)}, about {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """Return a duration in words of the right size: 42 s, 3 min, 1 h 20 min."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _rate(units_per_s: float) -> str:
    if units_per_s >= 10:
        return f"{units_per_s:,.0f}/s"
    if units_per_s >= 0.1:
        return f"{units_per_s:.1f}/s"
    return f"{units_per_s * 60:.1f}/min"
