"""How an engine takes the queries that wait: one by one, all at once, or in short pieces."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True, slots=True)
class Pieces:
    """Queries under way at most, and the length of a step [s]; inf = searches end in it."""

    slots: int
    budget_s: float


class SearchCalls(Enum):
    """The ways of a vector engine, as settings of ours."""

    ONE_A_QUERY = "one call a query"
    WHOLE_BATCHES = "whole batches"
    SUBSTAGES = "sub-stages"


PIECES: Final = {
    SearchCalls.ONE_A_QUERY: Pieces(1, math.inf),
    SearchCalls.WHOLE_BATCHES: Pieces(64, math.inf),
    SearchCalls.SUBSTAGES: Pieces(64, 0.02),
}
"""Sub-stages are as long as those of an engine without `Steer` commands (`VectorSettings`)."""
