"""Rows that decode, computed together, attend as they would one by one."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from heddle.engines.llm.attention.torch_decodes import attend_decodes, decode_rows
from heddle.engines.llm.step_batch import BatchRow, Draw
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, SlotRun, runs_of, slots_of

HEAD_DIM = 16
RUNS = (
    (SlotRun(3, 5),),
    (SlotRun(40, 9), SlotRun(8, 4), SlotRun(0, 1)),
    (SlotRun(3, 1),),
    (SlotRun(20, 17), SlotRun(60, 3)),
)


def store(kv_heads, dtype=torch.float32, device="cpu"):
    torch.manual_seed(0)
    pool = PageStore(KvShape(2, kv_heads, HEAD_DIM, dtype), 64, torch.device(device))
    for tensor in (*pool.keys, *pool.values):
        tensor.normal_()
    return pool


class Stretch:
    """Stands in for a rotation that differs from any other: a factor for each distance."""

    def rotator(self, distances):
        def rotate(keys):
            keys *= torch.exp2(-distances / 8.0)[:, None]

        return rotate


def row(number, runs, queries=1, shared=()):
    context = sum(run.length for run in runs) + sum(len(part.places) for part in shared)
    return BatchRow(number, number + queries, context, runs, Draw(), shared=shared)


def chunk(first_place, runs, rotation, kept=None):
    """Return the keys of a chunk in these slots, from a place on, all or some of its tokens."""
    slots = slots_of(runs)
    places = first_place + np.arange(len(slots) if kept is None else len(kept))
    return SharedKeys(places, slots, None if kept is None else np.array(kept), rotation)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("scaling", [0.25, 0.5])
def test_each_row_sees_its_own_context(heads, kv_heads, scaling):
    pool = store(kv_heads)
    rows = [row(number, runs) for number, runs in enumerate(RUNS)]
    query = torch.randn(heads, len(rows), HEAD_DIM)
    decodes = decode_rows(rows, pool, heads, Stretch())
    assert decodes.rows == tuple(rows)
    out = attend_decodes(decodes, pool, 1, query, scaling)
    for number, runs in enumerate(RUNS):
        keys, values = pool.read(1, runs)
        expected = F.scaled_dot_product_attention(
            query[:, number : number + 1], keys, values, scale=scaling, enable_gqa=True
        )
        torch.testing.assert_close(out[number], expected[:, 0], rtol=1e-5, atol=1e-6)


def test_only_plain_decodes_at_the_front_are_taken():
    pool = store(2)
    plain, prefill = row(0, RUNS[0]), row(1, RUNS[1], queries=2)
    assert decode_rows([plain, prefill, row(3, RUNS[2])], pool, 4, None).rows == (plain,)
    assert decode_rows([prefill, row(3, RUNS[2])], pool, 4, None) is None
    assert decode_rows([plain], store(2, torch.bfloat16), 4, None) is None
    assert decode_rows([plain], store(2, device="meta"), 4, None) is None


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
def test_chunks_are_read_where_they_lie_by_queries_turned_back_and_what_is_stale_is_not(
    heads, kv_heads
):
    pool = store(kv_heads)
    near, far = (SlotRun(44, 6), SlotRun(30, 4)), (SlotRun(10, 7),)
    rows = [
        row(0, RUNS[1], shared=(chunk(2, near, 3), chunk(14, far, -5, kept=[0, 3, 4]))),
        row(1, RUNS[0]),
        row(2, RUNS[2], shared=(chunk(0, far, 9),)),
    ]
    query = torch.randn(heads, len(rows), HEAD_DIM)
    out = attend_decodes(decode_rows(rows, pool, heads, Stretch()), pool, 1, query, 0.3)
    for number, decode in enumerate(rows):
        slots, rotations = decode.key_table()
        keys, values = pool.read(1, runs_of(slots))
        keys = keys * torch.exp2(torch.from_numpy(rotations) / 8.0)[:, None]
        expected = F.scaled_dot_product_attention(
            query[:, number : number + 1], keys, values, scale=0.3, enable_gqa=True
        )
        torch.testing.assert_close(out[number], expected[:, 0], rtol=1e-4, atol=1e-5)
