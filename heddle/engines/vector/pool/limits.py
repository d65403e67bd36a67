"""What the pool's feedback turns, and within which bounds."""

from dataclasses import dataclass
from typing import Final, Self

from heddle.core.errors import ConfigError

SHARE_MIN, SHARE_MAX = 0.1, 0.9
"""Neither stage is ever left without slots, so none of its searches waits for ever."""
PREFILL_SLO_S: Final = 0.05
FLUSH_START: Final = 1 / 4  # of the flush timeout, which prefill searches wait for at first
FLUSH_FLOOR: Final = 1 / 16  # and at least: from there the feedback finds back within seconds


@dataclass(frozen=True, slots=True)
class PoolKnobs:
    """How free slots are shared, and how long searches may wait to start together.

    While others run, searches that are fewer than the free slots wait for more, until the first of
    them has waited for its flush timeout or is urgent. That pays where starting one costs as much
    as starting several. Here a search joins the next step, which others take anyway, so waiting
    gains no throughput and costs time even where searches share the lists they read
    (tests/simulation/test_flush_timeouts.py): 0, no wait, is what a server has where its user
    names no other (`search_pool_flush_s`).

    Args:
        share: of free slots that is reserved for prefill while both stages wait, Trinity's r.
        prefill_wait_s_max: flush timeout of a prefill search, tau_pre [s].
        wait_s_max: flush timeout of any search, tau [s].

    Raises:
        ConfigError: a value is out of range.
    """

    share: float = 0.5
    prefill_wait_s_max: float = 0.0
    wait_s_max: float = 0.0

    def __post_init__(self) -> None:
        if not SHARE_MIN <= self.share <= SHARE_MAX:
            raise ConfigError(
                f"pool share: need {SHARE_MIN} to {SHARE_MAX}, got {self.share}; "
                "a policy such as prefill_first serves one stage always first"
            )
        if not 0 <= self.prefill_wait_s_max <= self.wait_s_max:
            raise ConfigError(
                "pool prefill_wait_s_max: need 0 to wait_s_max "
                f"({self.wait_s_max}), got {self.prefill_wait_s_max}"
            )

    @classmethod
    def flushing(cls, wait_s_max: float) -> Self:
        """Return the knobs that a pool begins with, for a flush timeout of any search [s]."""
        return cls(prefill_wait_s_max=FLUSH_START * wait_s_max, wait_s_max=wait_s_max)
