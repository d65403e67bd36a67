"""What one step computes, as plain arrays: the only thing a worker is given."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heddle.kv.rows import RowSegment, SlotRun


@dataclass(frozen=True, slots=True)
class Draw:
    """How a row's next token is chosen: greedy at temperature 0, else by `uniform` in [0, 1).

    The uniform comes from the request's own seed and the token's number, never from a stream
    shared by a batch: equal seeds give equal tokens whatever runs beside them.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    uniform: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One sequence in a step: queries [query_start, query_stop) of the packed tokens.

    The queries stand at positions [context - queries, context) and attend to every position
    before and at their own; `runs` says where positions [0, context) lie, `segments` how far
    the keys of each part are turned. `draw` None: no token is wanted from this row.
    """

    query_start: int
    query_stop: int
    context: int
    runs: tuple[SlotRun, ...]
    segments: tuple[RowSegment, ...]
    draw: Draw | None = None

    @property
    def queries(self) -> int:
        """Tokens of this row in the step."""
        return self.query_stop - self.query_start


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """All tokens of a step, packed one sequence after another.

    Shapes: token_ids, positions and slots [t] int64; `slots` says where each token's new key
    and value go.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    rows: tuple[BatchRow, ...]

    @property
    def tokens(self) -> int:
        """Tokens in the step."""
        return int(self.token_ids.shape[0])


@dataclass(frozen=True, slots=True)
class StepResult:
    """The chosen token of each row with a draw, in order; None where the logits are not finite."""

    token_ids: tuple[int | None, ...]
