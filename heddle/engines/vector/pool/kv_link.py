"""How busy the links from prefill to decode are, as the runtime reports it to a pool."""

from dataclasses import dataclass
from typing import Final

from heddle.core.commands import KvSent

KEPT: Final = 0.9  # at each look, of what lanes did before it


@dataclass(slots=True)
class KvLink:
    """Adds up what prefill lanes have sent since the last look. (Trinity §3.3)

    A link is fully used while it sends without a pause, or while its prefill lane computes without
    one: no order of searches would send more then. So the signal says how much more KV could be
    sent if prefill had the slots, however fast the link is. Sums fade over some ten looks, as a
    prompt is sent long after its computing began.

    Args:
        lanes: that prefill for others, each with a link of its own; 0 = none does, so that no
            link could idle.
    """

    lanes: int
    _sent_s: float = 0.0
    _stepped_s: float = 0.0
    _passed_s: float = 0.0
    _since_s: float | None = None

    def sent(self, kv: KvSent) -> None:
        """Note what lanes have been doing."""
        self._sent_s += kv.sending_s
        self._stepped_s += kv.stepping_s

    def take_use(self, now_s: float) -> float:
        """Return the links' use of late, as a share of what they could be used, in [0, 1]."""
        if self._since_s is not None:
            self._passed_s += max(0.0, now_s - self._since_s)
        self._since_s = now_s
        used_s, passed_s = max(self._sent_s, self._stepped_s), self._passed_s
        self._sent_s, self._stepped_s = KEPT * self._sent_s, KEPT * self._stepped_s
        self._passed_s = KEPT * passed_s
        if not (self.lanes and used_s and passed_s):
            return 1.0
        return min(1.0, used_s / (self.lanes * passed_s))
