"""How busy the links are that carry KV from prefill to decode, as a pool is told of it."""

from dataclasses import dataclass


@dataclass(slots=True)
class KvLink:
    """Adds up what prefill lanes have sent since the last look. (Trinity §3.3)

    Args:
        lanes: that prefill for others, each with a link of its own; 0 = none does, so that no
            link could idle.
    """

    lanes: int
    _sent_s: float = 0.0
    _since_s: float | None = None

    def sent(self, seconds: float) -> None:
        """Note that a lane has been sending for so long [s]."""
        self._sent_s += seconds

    def take_use(self, now_s: float) -> float:
        """Return the share of time that the links were busy since the last look, in [0, 1]."""
        since_s = self._since_s
        sent_s, self._sent_s, self._since_s = self._sent_s, 0.0, now_s
        if not self.lanes or since_s is None or now_s <= since_s:
            return 1.0
        return min(1.0, sent_s / (self.lanes * (now_s - since_s)))
