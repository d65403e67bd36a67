"""How busy the links are that carry KV from prefill to decode, as a pool is told of it."""

from dataclasses import dataclass
from typing import Final

from heddle.core.commands import KvSent
from heddle.engines.vector.pool.feedback import KV_LINK_TARGET

KEPT: Final = 0.9  # at each look, of what lanes did before


@dataclass(slots=True)
class KvLink:
    """Adds up what prefill lanes have sent since the last look. (Trinity §3.3)

    A link counts as busy while prefill lanes could not keep it so: where sending is too small a
    part of what they do to come to the target if they never paused. KV that is handed over in the
    memory of one machine is an example. Such a link always idles, whoever gets the slots.

    Args:
        lanes: that prefill for others, each with a link of its own; 0 = none does, so that no
            link could idle.
    """

    lanes: int
    _sent_s: float = 0.0
    _stepped_s: float = 0.0
    _lately_sent_s: float = 0.0
    _lately_stepped_s: float = 0.0
    _since_s: float | None = None

    def sent(self, kv: KvSent) -> None:
        """Note what lanes have been doing."""
        self._sent_s += kv.sending_s
        self._stepped_s += kv.stepping_s

    def take_use(self, now_s: float) -> float:
        """Return the share of time that the links were busy since the last look, in [0, 1]."""
        since_s, sent_s, stepped_s = self._since_s, self._sent_s, self._stepped_s
        self._since_s, self._sent_s, self._stepped_s = now_s, 0.0, 0.0
        # A prompt may be sent long after it was computed, so several looks tell.
        self._lately_sent_s = KEPT * self._lately_sent_s + sent_s
        self._lately_stepped_s = KEPT * self._lately_stepped_s + stepped_s
        if since_s is None or now_s <= since_s or not self._can_be_filled:
            return 1.0
        return min(1.0, sent_s / (self.lanes * (now_s - since_s)))

    @property
    def _can_be_filled(self) -> bool:
        if not (self.lanes and self._lately_sent_s):
            return False
        return self._lately_sent_s >= KV_LINK_TARGET * self._lately_stepped_s
