"""How many tokens an LLM lane computes in a second, by how many one step holds."""

from dataclasses import dataclass
from typing import Final

from heddle.core.cost_snapshot import CostSnapshot

BUSY_SHARE: Final = 0.8  # of the peak throughput: from there on, a lane has no room for guesses


@dataclass(frozen=True, slots=True)
class ThroughputCurve:
    """The throughput of a lane's steps, from the lane's own fitted costs.

    A step takes `call_s` beside its tokens, and `token_s` for each token [s]. So the throughput
    grows with the tokens of a step towards `peak_per_s`, which it never reaches.

    Source: HedraRAG §4.3 (T_curr, T_max).
    Deviates: the paper counts requests; this curve counts tokens, because prompts differ in length.
    """

    call_s: float
    token_s: float

    @classmethod
    def of(cls, costs: CostSnapshot | None) -> "ThroughputCurve | None":
        """Return the curve of a lane; None where its costs say nothing about prompt tokens."""
        if costs is None:
            return None
        token_s = costs.predict_s({"prefill_tokens": 1.0, "context_tokens": 1.0})
        return cls(max(0.0, costs.predict_s({"call": 1.0})), token_s) if token_s > 0 else None

    @property
    def peak_per_s(self) -> float:
        """Tokens a second in steps without end, the paper's T_max."""
        return 1.0 / self.token_s

    def per_s(self, tokens: float) -> float:
        """Return tokens a second in steps of this many tokens, the paper's T_curr."""
        return tokens / self.seconds(tokens) if tokens > 0 else 0.0

    def seconds(self, tokens: float) -> float:
        """Return how long a step of this many tokens takes; no step takes no time [s]."""
        return self.call_s + self.token_s * tokens if tokens > 0 else 0.0

    def room_per_s(self, tokens: float) -> float:
        """Return how far steps of this many tokens are below a busy lane's throughput [1/s].

        Negative where the lane is busy.
        """
        return BUSY_SHARE * self.peak_per_s - self.per_s(tokens)
