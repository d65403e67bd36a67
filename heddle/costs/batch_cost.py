"""What a batch of texts costs on one embedding lane: β + α·tokens + γ·Σ length²."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

from heddle.core.errors import ConfigError

ROUNDING = 1e-6  # of a query: a depth that is whole but for the arithmetic counts as whole


class BatchShape(NamedTuple):
    """A padded batch: its tokens, and the sum of the squares of its rows' padded lengths."""

    tokens: float
    squares: float

    @classmethod
    def uniform(cls, rows: int, length: int) -> Self:
        """Return the shape of rows that are all of one padded length [tokens]."""
        return cls(float(rows * length), float(rows * length * length))


@dataclass(frozen=True, slots=True)
class BatchCost:
    """Seconds of a batch, linear in its shape. (WindVE eq. 12)

    `latency_intercept_s` is the paper's β; its α is `latency_slope_s` at a query's length.
    Deviates: the paper counts queries of one length; tokens and squares hold for mixed lengths.

    Raises:
        ConfigError: a coefficient is negative or not finite.
    """

    latency_intercept_s: float
    token_s: float
    square_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency_intercept_s", "token_s", "square_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} of a batch cost must be at least 0, got {value}")

    @classmethod
    def from_queries(cls, alpha_s: float, beta_s: float, length: int) -> Self:
        """Return the cost of the paper's α and β, which hold for queries of one length."""
        return cls(beta_s, alpha_s / length)

    def latency_slope_s(self, length: int) -> float:
        """Return what one more query of this length costs, the paper's α [s]."""
        return length * (self.token_s + length * self.square_s)

    def predict_s(self, shape: BatchShape, batches: int = 1) -> float:
        """Return how long the work of a shape takes, cut into `batches` batches [s]."""
        work_s = shape.tokens * self.token_s + shape.squares * self.square_s
        return batches * self.latency_intercept_s + work_s

    def scaled(self, factor: float) -> Self:
        """Return the cost of a lane that is slower by a factor."""
        return type(self)(
            factor * self.latency_intercept_s, factor * self.token_s, factor * self.square_s
        )


@dataclass(frozen=True, slots=True)
class LaneDepth:
    """How many queries a lane may hold under an SLO, and why not more.

    `opens_at_s` is the shortest SLO that one query alone keeps on this lane; `is_room_bound` says
    that memory, or the rows it may hold, ends before the time does.
    """

    queries: int
    slo_s: float
    opens_at_s: float
    is_room_bound: bool = False

    @property
    def is_closed(self) -> bool:
        """Whether not even one query keeps the SLO. (WindVE eq. 11)"""
        return self.queries == 0

    def line(self, lane: str) -> str:
        """Return the depth in words, for the log and the command line."""
        if self.is_closed:
            opens_at_ms = math.ceil(self.opens_at_s * 1e3 - ROUNDING)
            return (
                f"lane {lane} is closed: one query takes {opens_at_ms} ms and the SLO is "
                f"{self.slo_s * 1e3:g} ms; an SLO of {opens_at_ms} ms would open it"
            )
        bound = ", all that it has room for" if self.is_room_bound else ""
        return f"lane {lane}: {self.queries} queries within {self.slo_s * 1e3:g} ms{bound}"


def queue_depth(
    cost: BatchCost,
    slo_s: float,
    length: int,
    *,
    margin: float = 1.0,
    tokens_max: float = math.inf,
    batch_tokens_max: float = math.inf,
) -> LaneDepth:
    """Return the largest number of queries that a lane answers within an SLO.

    Args:
        cost: the lane's.
        slo_s: the time limit, the paper's T [s].
        length: tokens of a query.
        margin: predictions are multiplied by it; at least 1.
        tokens_max: padded tokens that fit into the lane's memory, the second bound.
        batch_tokens_max: padded tokens of a step: each step costs the intercept again.

    Source: WindVE §III-B, eqs. 7-11; §IV-B2.
    """
    alone_s = margin * cost.predict_s(BatchShape.uniform(1, length))
    by_memory = math.floor(tokens_max / length) if math.isfinite(tokens_max) else math.inf
    if alone_s > slo_s + ROUNDING * alone_s or by_memory < 1:
        return LaneDepth(0, slo_s, alone_s, is_room_bound=by_memory < 1)
    slope_s = max(cost.latency_slope_s(length), ROUNDING * alone_s)
    left_s, by_time = slo_s / margin, 0
    if math.isfinite(batch_tokens_max):
        step_rows = max(1, int(batch_tokens_max // length))
        step_s = cost.latency_intercept_s + slope_s * step_rows
        steps = math.floor(left_s / step_s + ROUNDING)
        left_s, by_time = left_s - steps * step_s, steps * step_rows
    by_time += math.floor(max(0.0, left_s - cost.latency_intercept_s) / slope_s + ROUNDING)
    return LaneDepth(int(min(by_time, by_memory)), slo_s, alone_s, by_memory < by_time)
