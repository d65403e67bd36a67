"""What attention finds out about a row beside its output: how much its tokens are looked at."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heddle.engines.llm.key_rotation import KeyRotation
from heddle.engines.llm.step_batch import BatchRow, LastQueries, SpanAttention, TokenScores
from heddle.kv.page_store import KvBlock, PageStore

QUERIES_AT_ONCE = 64  # bounds the weights that are held at once


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
        self._scores: tuple[Tensor, ...] = ()

    def see(self, layer: int, query: Tensor, scaling: float) -> None:
        """Take in one layer; all but the last are ignored."""
        if layer < self._store.shape.layers - 1:
            return
        queries = query.float() * scaling
        scores = []
        for runs, distance in self._measure.chunks:
            keys, _ = self._store.read(layer, runs)
            scores.append(_scores_of(queries, keys, -distance, self._rotation))
        self._scores = tuple(scores)

    def result(self) -> tuple[NDArray[np.float32], ...]:
        """Return [tokens] for each chunk."""
        return tuple(scores.cpu().numpy() for scores in self._scores)


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


def scores_of_block(
    queries: Tensor, block: KvBlock, tokens: int, rotation: KeyRotation
) -> NDArray[np.float32]:
    """Return how much queries that were kept (`LastQueries`) look at each token of stored KV.

    `tokens` is how far the queries are to be turned: from where they were computed to their place,
    less as far as the keys would be turned from where they are stored to theirs.

    Shapes: queries [heads, n, head_dim] float32; result [tokens of the block].
    """
    keys = block.keys[-1].to(queries.device)
    return _scores_of(queries, keys, tokens, rotation).cpu().numpy()


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


def _scores_of(queries: Tensor, keys: Tensor, tokens: int, rotation: KeyRotation) -> Tensor:
    """Return how much queries look at each key: softmax over the keys, summed over all else.

    Turning the few queries instead of the keys gives the same products.

    Shapes: queries [heads, n, head_dim] float32, scaled; keys [kv_heads, tokens, head_dim]; result
    [tokens].
    """
    turned = torch.empty_like(queries)
    rotation.turn(queries, tokens, turned)
    logits = _grouped(turned, len(keys)) @ keys.float().transpose(1, 2)
    return logits.softmax(dim=-1).sum(dim=(0, 1))


def _grouped(query: Tensor, kv_heads: int) -> Tensor:
    """Return queries beside the keys that they share.

    Shapes: query [heads, queries, head_dim]; result [kv_heads, group * queries, head_dim] float32.
    """
    return query.float().reshape(kv_heads, -1, query.shape[2])
