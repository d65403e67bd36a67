"""When searches of one kind may stop, learnt from some that were run again exactly. Pure."""

import logging
from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.ivf.early_stop.scans import Scans
from heddle.engines.vector.ivf.early_stop.stop_rule import StopRule
from heddle.engines.vector.recall.recall_window import RecallWindow

log = logging.getLogger(__name__)

SAMPLE_MIN: Final = 64  # searches
SAMPLE_MAX: Final = 256
REFIT_EVERY: Final = 32  # searches
WATCHED: Final = 128  # searches that ended by the rule, of which its recall is watched


class Calibration:
    """A sliding sample of searches, its stop rule, and the recall that this keeps.

    A half of the sample, drawn at random, fits the model, the other its limit. When the searches
    that stopped find less than was promised, by more than chance explains, all is learnt anew, and
    until then every planned cluster is scanned.

    `rule` says when a search may stop; `why_full` why searches scan all that they planned, "" =
    they may stop.

    Args:
        target: the mean recall that is promised, in (0, 1).
        looks: after how many of their clusters these searches are looked at, [c].
    """

    def __init__(self, target: float, looks: NDArray[np.int64]) -> None:
        self._target = target
        self.looks = looks
        self._scans: deque[Scans] = deque(maxlen=SAMPLE_MAX)
        self._unread = 0  # scans since the rule was made
        self._watched = RecallWindow(WATCHED)
        self.rule: StopRule | None = None
        self.why_full = "it is not calibrated yet"

    def add(self, scan: Scans, ended: int, *, by_rule: bool) -> None:
        """Take in a search that was run again exactly.

        `ended` is the look at which it ended, or would have; `by_rule`: because a rule said so.
        """
        self._scans.append(scan)
        self._unread += 1
        if by_rule and self.rule is not None:  # else by one that was given up since
            self._watched.add(float(scan.recall[0, ended]))
            if self._watched.is_below(self._target):
                self._give_up()
                return
        is_due = self._unread >= (SAMPLE_MIN if self.rule is None else REFIT_EVERY)
        if is_due and len(self._scans) >= SAMPLE_MIN:
            self._fit()

    def _give_up(self) -> None:
        self.why_full = f"recall fell to {self._watched.mean:.3f}"
        log.info(
            "target recall %g: %s; every planned list is scanned until it is calibrated anew",
            self._target,
            self.why_full,
        )
        self.rule = None
        self._scans.clear()
        self._watched.clear()
        self._unread = 0

    def _fit(self) -> None:
        scans = Scans.joined(list(self._scans))
        # Drawn: in every second place there may be the second searches of all requests.
        order = np.random.default_rng(0).permutation(len(self._scans))
        self.rule = StopRule.calibrated(
            scans.part(order[::2]), scans.part(order[1::2]), self._target
        )
        self.why_full = "" if self.rule.limit > 0 else _unreachable(scans)
        self._unread = 0


def _unreachable(scans: Scans) -> str:
    return f"no earlier stop keeps it: they find {scans.recall[:, -1].mean():.3f}"
