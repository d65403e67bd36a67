"""What attention finds out beside its output, against the plain formula."""

import numpy as np
import pytest
import torch

from heddle.engines.llm.attention import meters
from heddle.engines.llm.attention.meters import QUERIES_AT_ONCE, meter_of
from heddle.engines.llm.step_batch import BatchRow, SpanAttention, TokenScores, ValueDeviation
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SlotRun

LAYERS, HEADS, KV_HEADS, DIM, SLOTS = 3, 4, 2, 8, 200
SCALE = 0.3


class Rolling:
    """Moves numbers by a place for every token: as with RoPE, only differences count."""

    def rotator(self, distances):
        def rotate(keys):
            for number, tokens in enumerate(distances.tolist()):
                keys[:, number] = keys[:, number].roll(tokens, -1)

        return rotate


@pytest.fixture
def store():
    filled = PageStore(KvShape(LAYERS, KV_HEADS, DIM, torch.float32), SLOTS, torch.device("cpu"))
    torch.manual_seed(0)
    for pool in (*filled.keys, *filled.values):
        pool.normal_()
    return filled


def row_of(queries, context, measure, places=None):
    run = (SlotRun(0, context),)
    return BatchRow(0, queries, context, run, None, places, measure)


def seen_by(meter, queries):
    """Show every layer to a meter; return the queries of each."""
    torch.manual_seed(1)
    shown = torch.randn(LAYERS, HEADS, queries, DIM)
    for layer in range(LAYERS):
        meter.see(layer, shown[layer], SCALE)
    return shown


def logits(query, keys):
    return query @ keys.repeat_interleave(HEADS // KV_HEADS, 0).transpose(1, 2) * SCALE


def test_token_scores_are_of_the_last_layer_and_each_chunk_has_its_own_softmax(store):
    chunks = (((SlotRun(50, 5), SlotRun(70, 3)), 0), ((SlotRun(120, 4),), 2))
    meter = meter_of(row_of(6, 10, TokenScores(chunks)), store, Rolling())
    shown = seen_by(meter, 6)
    slots = ([*range(50, 55), *range(70, 73)], list(range(120, 124)))
    for scores, where, (_, turned) in zip(meter.result(), slots, chunks, strict=True):
        keys = store.keys[-1][:, where].roll(turned, -1)
        expected = logits(shown[-1], keys).softmax(-1).sum((0, 1))
        assert np.allclose(scores, expected, rtol=1e-5)
        assert scores.sum() == pytest.approx(6 * HEADS)


def test_chunks_of_any_lengths_are_scored_some_at_once(store, monkeypatch):
    monkeypatch.setattr(meters, "SCORES_AT_ONCE", 6 * HEADS * 40)  # three chunks of the longest
    lengths = [1 + 3 * number % 11 for number in range(11)]
    chunks = tuple(((SlotRun(10 * i, length),), i % 4) for i, length in enumerate(lengths))
    meter = meter_of(row_of(6, 10, TokenScores(chunks)), store, Rolling())
    shown = seen_by(meter, 6)
    for scores, ((run,), turned) in zip(meter.result(), chunks, strict=True):
        keys = store.keys[-1][:, run.start : run.start + run.length].roll(turned, -1)
        expected = logits(shown[-1], keys).softmax(-1).sum((0, 1))
        assert np.allclose(scores, expected, rtol=1e-5)


@pytest.mark.parametrize("scattered", [False, True])
def test_span_attention_is_the_mean_over_heads_and_layers(store, scattered):
    queries, context = QUERIES_AT_ONCE + 9, 150  # more than it computes at once
    places = np.arange(context - queries, context)
    if scattered:
        places = np.sort(np.random.default_rng(2).permutation(context)[:queries])
    spans = ((0, 30), (30, 31), (100, 150))
    row = row_of(queries, context, SpanAttention(spans), places if scattered else None)
    meter = meter_of(row, store, Rolling())
    shown = seen_by(meter, queries)
    weights = []
    for layer in range(LAYERS):
        scores = logits(shown[layer], store.keys[layer][:, :context])
        hidden = torch.arange(context)[None] > torch.from_numpy(places)[:, None]
        weights.append(scores.masked_fill(hidden, float("-inf")).softmax(-1).mean(0))
    means, last = meter.result()
    for number, (start, stop) in enumerate(spans):
        expected = torch.stack(weights)[:, :, start:stop].sum(-1)
        assert np.allclose(means[:, number], expected.mean(0), atol=1e-6)
        assert np.allclose(last[:, number], expected[-1], atol=1e-6)


def test_other_rows_have_no_meter(store):
    assert meter_of(row_of(2, 4, None), store, Rolling()) is None
    assert meter_of(row_of(2, 4, ValueDeviation()), store, Rolling()) is None
