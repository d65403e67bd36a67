"""Blocks of queries against one softmax over all keys, and what each query sees."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from heddle.engines.llm.attention.torch_prompts import (
    SHARED_KEYS_MIN,
    KeyPart,
    attend_blocks,
    query_blocks,
)
from heddle.engines.llm.step_batch import BatchRow

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SCALING = 0.3


def visible_keys(row):
    """Return what each query sees, part by part; no query may be in two parts."""
    found = []
    for block in query_blocks(row, torch.float32, CPU):
        for part in block.parts:
            assert part.start == len(found)
            for query in range(part.start, part.stop):
                keys = range(part.first, part.last)
                if part.mask is not None:
                    is_seen = part.mask[query - part.start] == 0.0
                    keys = (is_seen.nonzero()[:, 0] + part.first).tolist()
                found.append([*range(block.shared), *keys])
        assert block.queries.stop == len(found)
    return found


def scattered(count, context, seed=0):
    """Return a row whose queries stand at `count` of `context` places."""
    places = np.sort(np.random.default_rng(seed).choice(context, count, replace=False))
    return BatchRow(0, count, int(places[-1]) + 1, (), places=places)


@pytest.mark.parametrize(
    ("queries", "context"), [(1, 9), (9, 9), (3, 9), (8, 9), (150, 400), (150, 800)]
)
def test_queries_see_what_stands_before_them(queries, context):
    row = BatchRow(0, queries, context, ())
    start = context - queries
    assert visible_keys(row) == [list(range(start + query + 1)) for query in range(queries)]


@pytest.mark.parametrize("context", [200, 1500])
def test_scattered_queries_see_what_stands_before_their_places(context):
    row = scattered(130, context)
    assert visible_keys(row) == [list(range(place + 1)) for place in row.places]


def test_a_whole_prompt_needs_no_mask_on_a_gpu():
    (block,) = query_blocks(BatchRow(0, 150, 150, ()), torch.float32, CUDA)
    (part,) = block.parts
    assert part.is_causal
    assert part.mask is None
    assert (part.start, part.stop, part.first, part.last) == (0, 150, 0, 150)


def test_masks_hide_only_what_some_query_of_a_block_sees():
    blocks = query_blocks(scattered(300, 4000), torch.float32, CPU)
    assert [block.shared >= SHARED_KEYS_MIN for block in blocks] == [False, True]
    assert [len(block.parts) for block in blocks] == [1, 4]
    assert all(part.first == block.shared for block in blocks for part in block.parts)


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize(
    "row",
    [
        BatchRow(0, 1, 700, ()),
        BatchRow(0, 90, 90, ()),
        BatchRow(0, 90, 900, ()),
        scattered(200, 1500),
        scattered(400, 1500),
    ],
    ids=["one", "whole", "last", "scattered", "long"],
)
def test_blocks_equal_one_softmax_over_what_each_query_sees(row, group):
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2 * group, row.queries, 8, generator=generator)
    pool = torch.randn(2, 2, 2000, 8, generator=generator)
    keys, values = pool[:, :, 100 : 100 + row.context]  # views into a pool, as in the engine
    blocks = query_blocks(row, torch.float32, CPU)
    cuts = [0, row.context // 3, row.context]  # two runs of slots
    parts = [KeyPart(keys[:, a:b], values[:, a:b]) for a, b in pairwise(cuts)]
    got = attend_blocks(query, parts, blocks, SCALING)

    last = np.arange(row.context - row.queries, row.context) if row.places is None else row.places
    hidden = torch.arange(row.context) > torch.from_numpy(last)[:, None]
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = (query @ keys.transpose(1, 2) * SCALING).masked_fill(hidden, float("-inf"))
    expected = (scores.softmax(-1) @ values).transpose(0, 1)
    assert (got - expected).abs().max() < 2e-6
