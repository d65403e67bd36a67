"""A lane's batch cost, followed online: its margin, its drift, its noisy neighbours."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from heddle.costs.batch_cost import BatchCost, BatchShape
from heddle.costs.nonnegative_fit import fit_nonnegative
from heddle.costs.time_margin import CONFIDENCE, time_margin

WINDOW: Final = 512  # newest batches, for margin and drift
FITTED_PER_OCTAVE: Final = 48  # newest of each size class: idle hours forget no big batch
REFIT_EVERY: Final = 64  # batches
REFIT_AFTER_S: Final = 5.0
SIZES_MIN: Final = 3  # distinct sizes that tell slope from intercept
SQUARES_FROM: Final = 128  # padded tokens of a text: of shorter ones a fit's squares are but noise
CAUTIOUS_UNTIL: Final = 32  # batches after an alarm
CAUTION: Final = 0.5  # of the depth meanwhile (AIMD)
CUSUM_SLACK: Final = 0.1  # log-ratio that counts as no change
CUSUM_ALARM: Final = 1.2
CUSUM_STEP_MAX: Final = 0.4  # so that no three batches alone raise an alarm
SAY_EVERY_S: Final = 60.0  # on a shared machine a lane's speed may change every second


class CostChange(Enum):
    """Why a lane's cost was fitted anew; the `reason` of `lane_model_refits_total`."""

    ROUTINE = "routine"
    DRIFT = "drift"
    NOISY_NEIGHBOUR = "noisy_neighbour"


class CostNews(NamedTuple):
    """A change of a lane's cost, with what a person should read.

    Routine refits say nothing, nor does what was said a minute ago: `refits` counts them all.
    """

    reason: CostChange
    message: str = ""


class Sample(NamedTuple):
    """A batch and its time [s]."""

    shape: BatchShape
    seconds: float


@dataclass(slots=True)
class LaneCost:
    """Follows what a lane's batches take.

    Args:
        lane: its name, for messages.
        cost: what is known before its first batch, from probes or a prior.
        margin: the 95 % bound that goes with it: a batch's time over its prediction.

    Mutates: `observe` adds a batch, and now and then replaces `cost` and `margin` as a whole.
    """

    lane: str
    cost: BatchCost
    margin: float = 1.0
    outlier_share: float = 0.0
    refits: dict[CostChange, int] = field(default_factory=dict)
    _window: deque[Sample] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _by_octave: dict[int, deque[Sample]] = field(default_factory=dict)
    _since_refit: int = 0
    _refit_s: float = -math.inf
    _said_s: dict[CostChange, float] = field(default_factory=dict)
    _cautious_for: int = 0
    _cusum: list[float] = field(default_factory=lambda: [0.0, 0.0])  # slower, faster
    _since_calm: list[int] = field(default_factory=lambda: [0, 0])  # batches since each was 0

    @classmethod
    def fitted(cls, lane: str, samples: Sequence[Sample], now_s: float) -> Self:
        """Return the cost of a lane that some batches of at least three sizes were timed on."""
        known = cls(lane, BatchCost(0.0, 1.0))
        for sample in samples:
            known._window.append(sample)
            known._keep_for_fit(sample)
        known._fit(now_s)
        return known

    @property
    def caution(self) -> float:
        """Share of the depth that may be used: half of it while an alarm is fresh."""
        return CAUTION if self._cautious_for else 1.0

    def observe(self, shape: BatchShape, seconds: float, now_s: float) -> CostNews | None:
        """Take in a batch that was timed in the lane; return what changed."""
        sample = Sample(shape, max(seconds, 1e-6))
        self._window.append(sample)
        self._keep_for_fit(sample)
        self._since_refit += 1
        self._cautious_for = max(0, self._cautious_for - 1)
        if self._drifted(sample):
            return self._on_drift(now_s)
        if len(self._window) < WINDOW and self._since_refit < REFIT_EVERY // 4:
            return None
        if self._since_refit >= REFIT_EVERY or now_s - self._refit_s >= REFIT_AFTER_S:
            return self._refit(now_s)
        return None

    def _keep_for_fit(self, sample: Sample) -> None:
        octave = int(math.log2(max(1.0, sample.shape.tokens)))
        self._by_octave.setdefault(octave, deque(maxlen=FITTED_PER_OCTAVE)).append(sample)

    def _drifted(self, sample: Sample) -> bool:
        """Whether the log-ratio's cumulative sums say that the lane's speed has changed."""
        predicted_s = max(self.cost.predict_s(sample.shape), 1e-9)
        surprise = math.log(sample.seconds / predicted_s)
        for side, signed in enumerate((surprise, -surprise)):
            step = min(signed, CUSUM_STEP_MAX) - CUSUM_SLACK
            self._cusum[side] = max(0.0, self._cusum[side] + step)
            self._since_calm[side] = self._since_calm[side] + 1 if self._cusum[side] else 0
        return max(self._cusum) > CUSUM_ALARM

    def _on_drift(self, now_s: float) -> CostNews:
        """Forget what came before the change, and be careful until it is known better."""
        side = int(np.argmax(self._cusum))
        recent = list(self._window)[-self._since_calm[side] :]
        before_s = self.cost.predict_s(recent[-1].shape)
        self._window = deque(recent, maxlen=WINDOW)
        self._by_octave.clear()
        for sample in recent:
            self._keep_for_fit(sample)
        self._cusum, self._since_calm = [0.0, 0.0], [0, 0]
        self._cautious_for = CAUTIOUS_UNTIL
        self._fit(now_s, has_drifted=True)
        factor = self.cost.predict_s(recent[-1].shape) / max(before_s, 1e-9)
        return self._news(
            CostChange.DRIFT,
            f"lane {self.lane} takes {factor:.2f} times as long as before: its cost is learnt "
            f"anew, and its depth halved for {CAUTIOUS_UNTIL} batches",
            now_s,
        )

    def _refit(self, now_s: float) -> CostNews:
        was_noisy = self.outlier_share > 1 - CONFIDENCE
        self._fit(now_s)
        if self.outlier_share <= 1 - CONFIDENCE or was_noisy:
            return self._news(CostChange.ROUTINE, "", now_s)
        return self._news(
            CostChange.NOISY_NEIGHBOUR,
            f"lane {self.lane} has a noisy neighbour: {self.outlier_share:.0%} of its batches "
            f"take far longer than the others; its depth stays, and its margin of "
            f"{self.margin:.2f} covers only the others",
            now_s,
        )

    def _fit(self, now_s: float, *, has_drifted: bool = False) -> None:
        samples = [sample for kept in self._by_octave.values() for sample in kept]
        seconds = np.array([sample.seconds for sample in samples])
        shapes = np.array([(1.0, *sample.shape) for sample in samples])
        if len({sample.shape.tokens for sample in samples}) >= SIZES_MIN:
            has_long = any(s.shape.squares >= SQUARES_FROM * s.shape.tokens for s in samples)
            told = shapes if has_long else shapes[:, :2]
            self.cost = BatchCost(*map(float, fit_nonnegative(told, seconds)))
        elif has_drifted:  # too few sizes tell only how much faster or slower it has become
            self.cost = self.cost.scaled(float(np.median(seconds / self._predicted(shapes))))
        recent = self._window
        ratios = np.array([s.seconds for s in recent]) / self._predicted(
            np.array([(1.0, *s.shape) for s in recent])
        )
        self.margin, self.outlier_share = time_margin(ratios)
        self._since_refit, self._refit_s = 0, now_s

    def _predicted(self, shapes: NDArray[np.float64]) -> NDArray[np.float64]:
        cost = self.cost
        coefficients = np.array([cost.latency_intercept_s, cost.token_s, cost.square_s])
        predicted: NDArray[np.float64] = np.maximum(shapes @ coefficients, 1e-9)
        return predicted

    def _news(self, reason: CostChange, message: str, now_s: float) -> CostNews:
        """Count a change; its message is left out where such a one was said a short while ago."""
        self.refits[reason] = self.refits.get(reason, 0) + 1
        if now_s < self._said_s.get(reason, -math.inf) + SAY_EVERY_S:
            return CostNews(reason)
        self._said_s[reason] = now_s
        return CostNews(reason, message)
