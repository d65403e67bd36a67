"""What one step computes, as plain arrays: the only thing a worker is given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from heddle.kv.rows import Numbers, SharedKeys, SlotRun, slots_of


class TokenMask(Protocol):
    """Which tokens may be drawn. It is computed while the step runs."""

    def bits(self) -> NDArray[np.uint32]:
        """Wait for the mask and return it, without a bit where it has failed.

        Shapes: result [words]; bit b of word w is token 32 w + b.
        """
        ...


@dataclass(frozen=True, slots=True)
class Draw:
    """How a row's next token is chosen: greedy at temperature 0, else by `uniform` in [0, 1).

    The uniform comes from the request's own seed and the token's number, never from a stream
    shared by a batch: equal seeds give equal tokens beside any other rows.
    `wants_probability`: how sure the model is of the token is wanted too. Only tokens of the `mask`
    may be drawn; None: any.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    uniform: float = 0.0
    wants_probability: bool = False
    mask: TokenMask | None = None


@dataclass(frozen=True, slots=True)
class TokenScores:
    """How much the queries look at each token of some chunks, in the last layer. (FusionRAG §3.2)

    Summed over heads and queries; the softmax runs over one chunk at a time, so each chunk gets the
    same weight in all. `chunks` says where the keys of each lie, and by how many tokens they are
    to be rotated. Gives [tokens] for each chunk.
    """

    chunks: tuple[tuple[tuple[SlotRun, ...], int], ...]


@dataclass(frozen=True, slots=True)
class LastQueries:
    """What the queries are in the last layer, after RoPE and times the attention's scaling.

    Gives [heads, queries, head_dim]: what scores tokens later, by one product and no model.
    """


@dataclass(frozen=True, slots=True)
class SpanAttention:
    """How much each query looks at each of these spans of the context, mean over heads.

    Gives two arrays [queries, spans]: the mean over layers, and the last layer.
    """

    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ValueDeviation:
    """How far the queries' values move from those that lie in their slots. (CacheBlend)

    The row is computed up to the keys and values of layer `CHECK_LAYER`, and no further. Gives
    [queries]: the squared distance there, over all heads.
    """


CHECK_LAYER = 1  # the first layer whose values depend on what stands before a token
Measure = TokenScores | LastQueries | SpanAttention | ValueDeviation


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One sequence in a step: queries [query_start, query_stop) of the packed tokens.

    It shows the keys of `context` positions. Those in `shared` lie in pages of others; `runs` says
    where the rest lie, in their order. A query attends to every position before and at its own.
    Mostly the queries are the last of these positions; `places` says which ones they are where
    they have gaps between them. `draw` None: no token is wanted from this row. `draft_draws`: its
    last queries are drafted, and how the token behind each of them is chosen; `draw` then is for
    the query before these. `measure`: what else is wanted of it.

    Shapes: places [queries] int64, ascending.
    """

    query_start: int
    query_stop: int
    context: int
    runs: tuple[SlotRun, ...]
    draw: Draw | None = None
    places: NDArray[np.int64] | None = None
    measure: Measure | None = None
    shared: tuple[SharedKeys, ...] = ()
    draft_draws: tuple[Draw, ...] = ()

    @property
    def draws(self) -> tuple[Draw, ...]:
        """How the tokens behind its last queries are chosen, as many as there are here."""
        return () if self.draw is None else (self.draw, *self.draft_draws)

    @property
    def queries(self) -> int:
        """Tokens of this row in the step."""
        return self.query_stop - self.query_start

    def key_table(self) -> tuple[Numbers, Numbers]:
        """Return where each key lies, and by how many tokens it is to be rotated.

        Shapes: [context] int64 each, in the order of positions.
        """
        slots, rotations = np.empty(self.context, np.int64), np.zeros(self.context, np.int64)
        slots[self.own_places()] = slots_of(self.runs)
        for keys in self.shared:
            slots[keys.places], rotations[keys.places] = keys.slots, keys.rotation
        return slots, rotations

    def own_places(self) -> Numbers:
        """Return the places of the keys in `runs`. Shapes: result [n] int64, ascending."""
        is_own = np.ones(self.context, np.bool_)
        for keys in self.shared:
            is_own[keys.places] = False
        return np.flatnonzero(is_own)

    def slots_by_part(self) -> list[Numbers]:
        """Return where the keys lie: the row's own, then those of each chunk."""
        return [slots_of(self.runs), *(keys.slots for keys in self.shared)]


@dataclass(frozen=True, slots=True, eq=False)
class SlotLoad:
    """Stored KV to copy into the pool: tokens from `offset` of a block on, keys rotated.

    Shapes: slots [n] int64.
    """

    slots: NDArray[np.int64]
    block: object
    offset: int
    rotation: int


@dataclass(frozen=True, slots=True, eq=False)
class StepBatch:
    """All tokens of a step, packed one sequence after another; `loads` come before them.

    Rows that are only checked (`ValueDeviation`) are the last ones.

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

    @property
    def checked_tokens(self) -> int:
        """Tokens of rows that are only checked."""
        return sum(row.queries for row in self.rows if isinstance(row.measure, ValueDeviation))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave.

    `token_ids` are the chosen tokens, one for each draw, row by row. `broken_rows` are the
    indices of rows whose hidden states or logits are not finite: neither their token nor the KV
    that the step wrote for them may be used. `measured` holds what was wanted of rows with a
    measure, by the row's index. `probabilities` are those of the chosen tokens whose draw wants
    it, in order, by the softmax of the logits as they are.
    """

    token_ids: tuple[int, ...]
    broken_rows: frozenset[int] = frozenset()
    measured: Mapping[int, tuple[NDArray[np.float32], ...]] = field(default_factory=dict)
    probabilities: tuple[float, ...] = ()
