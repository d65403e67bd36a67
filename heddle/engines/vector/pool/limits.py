"""What the pool's feedback turns, and within which bounds."""

from dataclasses import dataclass

from heddle.core.errors import ConfigError

SHARE_MIN, SHARE_MAX = 0.1, 0.9
"""Neither stage is ever left without slots, so none of its searches waits for ever."""


@dataclass(frozen=True, slots=True)
class PoolKnobs:
    """How free slots are shared, and how long searches may wait to start together.

    While others run, searches that are fewer than the free slots wait for more, until the first of
    them has waited for its flush timeout or is urgent. That pays where starting one costs as much
    as starting several. Here a search joins the next step, which others take anyway, so waiting
    gains no throughput and costs time even where searches share the lists they read
    (tests/simulation/test_flush_timeouts.py): 0, no wait, is what a server has.

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
