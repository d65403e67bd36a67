"""Rows that decode, computed together, attend as they would one by one."""

import pytest
import torch
import torch.nn.functional as F

from heddle.engines.llm.decode_attention import attend_decodes, decode_rows
from heddle.engines.llm.step_batch import BatchRow, Draw
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import RowSegment, SlotRun

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


def row(number, runs, queries=1, rotation=0):
    context = sum(run.length for run in runs)
    segments = (RowSegment(0, context, rotation),)
    return BatchRow(number, number + queries, context, runs, segments, Draw())


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
@pytest.mark.parametrize("scaling", [0.25, 0.5])
def test_each_row_sees_its_own_context(heads, kv_heads, scaling):
    pool = store(kv_heads)
    rows = [row(number, runs) for number, runs in enumerate(RUNS)]
    query = torch.randn(heads, len(rows), HEAD_DIM)
    decodes = decode_rows(rows, pool, heads)
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
    plain, chunk = row(0, RUNS[0]), row(1, RUNS[1], queries=2)
    assert decode_rows([plain, chunk, row(3, RUNS[2])], pool, 4).rows == (plain,)
    assert decode_rows([chunk, row(3, RUNS[2])], pool, 4) is None
    assert decode_rows([row(0, RUNS[0], rotation=7)], pool, 4) is None
    assert decode_rows([plain], store(2, torch.bfloat16), 4) is None
    assert decode_rows([plain], store(2, device="meta"), 4) is None
