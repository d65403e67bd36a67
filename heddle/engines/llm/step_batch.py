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

    `runs` says where the keys of `context` positions lie, `segments` how far those of each part
    are turned. A query attends to every position before and at its own. Mostly the queries are
    the last of these positions; `places` says which ones they are where they have gaps between
    them. `draw` None: no token is wanted from this row. `scored` spans of the context: how much
    the queries look at each token there is wanted.

    Shapes: places [queries] int64, ascending.
    """

    query_start: int
    query_stop: int
    context: int
    runs: tuple[SlotRun, ...]
    segments: tuple[RowSegment, ...]
    draw: Draw | None = None
    places: NDArray[np.int64] | None = None
    scored: tuple[tuple[int, int], ...] = ()

    @property
    def queries(self) -> int:
        """Tokens of this row in the step."""
        return self.query_stop - self.query_start


@dataclass(frozen=True, slots=True, eq=False)
class SlotLoad:
    """Stored KV to copy into the pool: tokens from `offset` of a block on, keys turned.

    Shapes: slots [n] int64.
    """

    slots: NDArray[np.int64]
    block: object
    offset: int
    rotation: int


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """All tokens of a step, packed one sequence after another; `loads` come before them.

    Shapes: token_ids, positions and slots [t] int64; `slots` says where each token's new key
    and value go.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    rows: tuple[BatchRow, ...]
    loads: tuple[SlotLoad, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens in the step."""
        return int(self.token_ids.shape[0])


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave.

    `token_ids` are the chosen tokens of the rows with a draw, in order. `broken_rows` are the
    indices of rows whose hidden states or logits are not finite: neither their token nor the KV
    that the step wrote for them may be used. `scores` holds, for the rows with scored spans, in
    order, the attention of the last layer that each token of a span got, summed over heads and
    queries; within a span it is a softmax of its own (FusionRAG §3.2).

    Shapes: scores[i][j] [tokens of the span] float32.
    """

    token_ids: tuple[int, ...]
    broken_rows: frozenset[int] = frozenset()
    scores: tuple[tuple[NDArray[np.float32], ...], ...] = ()
