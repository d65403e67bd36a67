"""What attention finds out about a row beside its output: how much its tokens are looked at."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.attention.key_rotation import KeyRotation
from heddle.engines.llm.step_batch import BatchRow, LastQueries, SpanAttention, TokenScores
from heddle.kv.page_store import PageStore

QUERIES_AT_ONCE = 64  # bounds the weights that are held at once
SCORES_AT_ONCE = 1 << 20  # of chunks' tokens: long products, whose results stay in the cache


class Meter(Protocol):
    """Watches one row through the layers of a step."""

    def see(self, layer: int, query: Tensor, scaling: float) -> None:
        """Take in one layer. Shapes: query [heads, queries, head_dim]."""
        ...

    def result(self) -> tuple[NDArray[np.float32], ...]:
        """Return what the row's measure wants."""
        ...


def meter_of(row: BatchRow, store: PageStore, rotation: KeyRotation) -> Meter | None:
    """Return what watches a row whose measure is one of attention."""
    if isinstance(row.measure, TokenScores):
        return TokenScoreMeter(row.measure, store, rotation)
    if isinstance(row.measure, LastQueries):
        return LastQueriesMeter(store)
    if isinstance(row.measure, SpanAttention):
        assert not row.shared, "attention is logged over keys that lie in the row's own pages"
        return SpanAttentionMeter(row.measure, row, store)
    return None


class TokenScoreMeter:
    """Scores the tokens of chunks, which need not be in the row's context, in the last layer."""

    def __init__(self, measure: TokenScores, store: PageStore, rotation: KeyRotation) -> None:
        self._measure = measure
        self._store = store
        self._rotation = rotation
        self._scores: tuple[NDArray[np.float32], ...] = ()

    def see(self, layer: int, query: Tensor, scaling: float) -> None:
        """Take in one layer; all but the last are ignored."""
        if layer < self._store.shape.layers - 1:
            return
        chunks = [
            KeysToScore(self._store.read(layer, runs)[0], -distance)
            for runs, distance in self._measure.chunks
        ]
        self._scores = scores_of(query.float() * scaling, chunks, self._rotation)

    def result(self) -> tuple[NDArray[np.float32], ...]:
        """Return [tokens] for each chunk."""
        return self._scores


class LastQueriesMeter:
    """Keeps a row's queries of the last layer."""

    def __init__(self, store: PageStore) -> None:
        self._layers = store.shape.layers
        self._queries: Tensor | None = None

    def see(self, layer: int, query: Tensor, scaling: float) -> None:
        """Take in one layer; all but the last are ignored."""
        if layer == self._layers - 1:
            self._queries = query.float() * scaling

    def result(self) -> tuple[NDArray[np.float32], ...]:
        """Return [heads, queries, head_dim]."""
        assert self._queries is not None, "the last layer was not computed"
        return (self._queries.cpu().numpy(),)


class KeysToScore(NamedTuple):
    """A chunk's keys in the last layer, and how far queries are rotated to meet them [tokens].

    That is from where they were computed to their place, less as far as the keys would be rotated
    from where they are stored to theirs. Shapes: keys [kv_heads, tokens, head_dim].
    """

    keys: Tensor
    tokens: int


def scores_of(
    queries: Tensor, chunks: Sequence[KeysToScore], rotation: KeyRotation
) -> tuple[NDArray[np.float32], ...]:
    """Return how much queries look at each key: softmax over a chunk's keys, summed over all else.

    Shapes: queries [heads, n, head_dim] float32, scaled; results [tokens] of each chunk.
    """
    found: list[NDArray[np.float32]] = []
    longest = max((chunk.keys.shape[1] for chunk in chunks), default=1)
    at_once = max(1, SCORES_AT_ONCE // (queries.shape[0] * queries.shape[1] * longest))
    for start in range(0, len(chunks), at_once):
        some = chunks[start : start + at_once]
        scores = _scores_together(queries, some, rotation).cpu().numpy()
        found += [own[: chunk.keys.shape[1]] for own, chunk in zip(scores, some, strict=True)]
    return tuple(found)


class SpanAttentionMeter:
    """Adds up the attention weights that fall on each span of the row's context."""

    def __init__(self, measure: SpanAttention, row: BatchRow, store: PageStore) -> None:
        self._row = row
        self._store = store
        bounds = np.asarray(measure.spans)
        positions = np.arange(row.context)[:, None]
        is_in = (positions >= bounds[:, 0]) & (positions < bounds[:, 1])
        self._is_in = torch.from_numpy(is_in.astype(np.float32))  # [context, spans]
        self._total = torch.zeros(row.queries, len(bounds))
        self._last = self._total

    def see(self, layer: int, query: Tensor, scaling: float) -> None:
        """Add one layer's weights."""
        keys, _ = self._store.read(layer, self._row.runs)
        parts = [
            self._weights(start, query[:, start : start + QUERIES_AT_ONCE], keys, scaling)
            for start in range(0, self._row.queries, QUERIES_AT_ONCE)
        ]
        self._last = torch.cat(parts)
        self._total = self._total + self._last

    def result(self) -> tuple[NDArray[np.float32], ...]:
        """Return the mean over layers and the last one, [queries, spans] each."""
        return (self._total / self._store.shape.layers).numpy(), self._last.numpy()

    def _weights(self, start: int, query: Tensor, keys: Tensor, scaling: float) -> Tensor:
        """Return some queries' weights on each span, mean over heads. Shapes: [queries, spans]."""
        kv_heads, count = keys.shape[0], query.shape[1]
        logits = _grouped(query, kv_heads) @ keys.float().transpose(1, 2) * scaling
        logits = logits.view(kv_heads, -1, count, self._row.context)  # the heads of a group apart
        first = self._row.context - self._row.queries
        places = (
            np.arange(first, self._row.context) if self._row.places is None else self._row.places
        )[start : start + count]
        is_hidden = torch.arange(self._row.context) > torch.from_numpy(places)[:, None]
        logits.masked_fill_(is_hidden.to(logits.device), float("-inf"))
        weights = logits.softmax(dim=-1).mean(dim=(0, 1)).cpu()
        return weights @ self._is_in


def _scores_together(
    queries: Tensor, chunks: Sequence[KeysToScore], rotation: KeyRotation
) -> Tensor:
    """Return the scores of chunks in one product; what is longer than a chunk means nothing.

    Rotating the few queries instead of the keys gives the same products.

    Shapes: queries [heads, n, head_dim]; result [chunks, tokens of the longest].
    """
    heads, count, head_dim = queries.shape
    lengths = torch.tensor([chunk.keys.shape[1] for chunk in chunks], device=queries.device)
    distances = torch.tensor([chunk.tokens for chunk in chunks], device=queries.device)
    rotated = queries.repeat(1, len(chunks), 1)
    rotation.rotator(distances.repeat_interleave(count))(rotated)
    rotated = rotated.view(heads, len(chunks), count, head_dim).transpose(0, 1)
    longest = int(lengths.max())
    keys = torch.stack(
        [F.pad(chunk.keys, (0, 0, 0, longest - chunk.keys.shape[1])) for chunk in chunks]
    ).float()
    # The heads of a group share their keys, so they may as well be queries of one head.
    logits = rotated.reshape(*keys.shape[:2], -1, head_dim) @ keys.transpose(2, 3)
    if int(lengths.min()) < longest:
        is_behind = torch.arange(longest, device=queries.device) >= lengths[:, None]
        logits.masked_fill_(is_behind[:, None, None], float("-inf"))
    return logits.softmax(dim=-1).sum(dim=(1, 2))


def _grouped(query: Tensor, kv_heads: int) -> Tensor:
    """Return queries beside the keys that they share.

    Shapes: query [heads, queries, head_dim]; result [kv_heads, group * queries, head_dim] float32.
    """
    return query.float().reshape(kv_heads, -1, query.shape[2])
