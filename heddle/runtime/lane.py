"""The runtime's side of an engine: what waits for it, and what is known of it."""

import math
from dataclasses import dataclass, field

from heddle.core.frames import Frame, Load
from heddle.core.gauges import (
    CHUNK_KV_DISK_ONLY,
    CHUNK_KV_DISK_ONLY_S,
    CHUNK_KV_ENTRIES,
    CHUNK_KV_TOKENS,
)
from heddle.core.ports import EnginePort
from heddle.costs.speculation import may_gain
from heddle.costs.throughput import ThroughputCurve
from heddle.passes.cycle_view import EngineView, StoredKv
from heddle.runtime.engine_scheduler import EngineScheduler
from heddle.runtime.search_meter import SearchMeter
from heddle.runtime.utilisation import Utilisation

STAGE_SMOOTHING = 0.1
ROWS_REMEMBERED = 64  # the work of a row counts by 1/e as much once as many have followed it


@dataclass(slots=True)
class Lane:
    """The runtime's side of one engine.

    `tokens` are those of the LLM tasks in flight (`token_count`), `computed` how many of them its
    steps have computed. Prompts are computed ahead while it works at most `busy_max` of the time;
    None = none is.
    """

    port: EnginePort
    scheduler: EngineScheduler
    busy_max: float | None = 1.0
    in_flight: int = 0
    tokens: int = 0
    computed: float = 0.0
    stage_s: float | None = None
    steered: tuple[int, float] | None = None  # epoch and step budget of the newest Steer
    last: Frame | None = None
    seen: tuple[int, int] = (0, 0)  # epoch and number of the newest frame
    searches: SearchMeter = field(default_factory=SearchMeter)
    use: Utilisation = field(default_factory=Utilisation)
    _worked_s: float = 0.0
    _rows_done: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do, and nothing waits for it."""
        return not self.in_flight and not self.scheduler.pending

    @property
    def budget_s(self) -> float | None:
        """The step budget in force; a restarted engine knows nothing of earlier Steers [s]."""
        if self.steered is None or self.steered[0] != self.port.epoch:
            return None
        return self.steered[1]

    @property
    def tokens_left(self) -> int:
        """Tokens of its LLM tasks that are still to be computed, at most."""
        return max(0, self.tokens - int(self.computed))

    def begin(self, tokens: int) -> None:
        """Count a task that was sent."""
        self.in_flight += 1
        self.tokens += tokens

    def end(self, tokens: int) -> None:
        """Count a task that has ended."""
        self.in_flight -= 1
        self.tokens -= tokens
        self.computed = max(0.0, self.computed - tokens) if self.in_flight else 0.0

    @property
    def work_s(self) -> float:
        """About how long its LLM tasks in flight take; infinite where requests wait for it [s]."""
        if self.scheduler.pending:
            return math.inf
        curve = ThroughputCurve.of(self.last.costs if self.last else None)
        return 0.0 if curve is None else curve.seconds(self.tokens_left)

    def may_gain(self, probability: float, rest_s: float) -> bool:
        """Whether a prompt computed ahead could pay here at any length; True = not known."""
        if self.busy_max is None or self.use.share > self.busy_max:
            return False
        curve = ThroughputCurve.of(self.last.costs if self.last else None)
        return curve is None or may_gain(probability, rest_s, curve.call_s, self.use.delay)

    @property
    def stored(self) -> StoredKv | None:
        """The stored KV that it would have to read from disk; None where there is none."""
        gauges = {} if self.last is None else self.last.gauges
        entries = gauges.get(CHUNK_KV_DISK_ONLY, 0.0)
        if entries < 1:
            return None
        tokens = gauges.get(CHUNK_KV_TOKENS, 0.0) / max(1.0, gauges.get(CHUNK_KV_ENTRIES, 0.0))
        return StoredKv(gauges.get(CHUNK_KV_DISK_ONLY_S, 0.0) / entries, tokens)

    def learn_stage(self, seconds: float) -> None:
        """Fold in how long one task took from sending to its result [s]."""
        self.stage_s = smoothed_s(self.stage_s, seconds)

    @property
    def row_s(self) -> float | None:
        """How long the engine has worked for a row lately; None = for none yet [s]."""
        return self._worked_s / self._rows_done if self._rows_done else None

    @property
    def is_short(self) -> bool:
        """Whether more waits than its credits let through now."""
        waiting = sum(pending.rows for pending in self.scheduler.pending.values())
        return waiting > self.port.credits.free

    def learn_work(self, seconds: float, rows: int, now_s: float) -> None:
        """Fold in a step of the engine [s], and the rows of the tasks that it has done."""
        self.use.work(seconds, now_s)
        kept = math.exp(-rows / ROWS_REMEMBERED)
        self._worked_s = self._worked_s * kept + seconds
        self._rows_done = self._rows_done * kept + rows

    def view(self) -> EngineView:
        """Return what cycle passes see of this engine.

        Mutates: the newest searches are handed out once.
        """
        return EngineView(
            name=self.port.name,
            kinds=self.port.kinds,
            in_flight=self.in_flight,
            pending=len(self.scheduler.pending),
            load=self.last.load if self.last else Load(),
            costs=self.last.costs if self.last else None,
            stage_s=self.stage_s,
            budget_s=self.budget_s,
            calls=self.searches.take(),
            tokens=self.tokens_left,
            stored=self.stored,
            delay=self.use.delay,
        )


def smoothed_s(known_s: float | None, seconds: float) -> float:
    """Return the mean length of a stage with one more folded in; None = it is the first [s]."""
    return seconds if known_s is None else known_s + STAGE_SMOOTHING * (seconds - known_s)
