"""The compiled attention over keys anywhere in the pool, against one softmax over turned copies."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heddle.core.instruction_sets import SETS, flags_in_force
from heddle.engines.llm.attention.compiled_rows import CompiledRows
from heddle.engines.llm.attention.gathered_keys import GatheredKeys
from heddle.engines.llm.attention.key_rotation import PairRotation
from heddle.engines.llm.step_batch import BatchRow
from heddle.kernels.compiled_kernel import find_row_kernel, load_kernel
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, runs_of
from tests.helpers.row_kernels import row_kernel

SLOTS = 700
TOLERANCES = {
    torch.float32: {"rtol": 1e-4, "atol": 2e-5},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}


@pytest.fixture(params=TOLERANCES, ids=str)
def dtype(request):
    """Return a number type that there is a kernel for."""
    row_kernel(request.param)
    return request.param


def rotation(head_dim):
    frequencies = 1e4 ** -(torch.arange(0, head_dim, 2) / head_dim)
    return PairRotation(SimpleNamespace(rotary_emb=SimpleNamespace(inv_freq=frequencies)))


def pool(kv_heads, head_dim, dtype):
    store = PageStore(KvShape(2, kv_heads, head_dim, dtype), SLOTS, torch.device("cpu"))
    for tensor in (*store.keys, *store.values):
        tensor.normal_()
    return store


def row(queries, chunks, seed=0, *, at_the_end=False):
    """Return a row of 40 keys of its own around chunks, (tokens, rotation) each, in any slots."""
    random = np.random.default_rng(seed)
    context = 40 + sum(tokens for tokens, _ in chunks)
    slots = random.permutation(SLOTS)[:context]
    shared, start = [], 20
    for tokens, turned in chunks:
        places = np.arange(start, start + tokens)
        shared.append(SharedKeys(places, slots[places], None, turned))
        start += tokens
    own = np.ones(context, bool)
    own[20 : context - 20] = False
    places = None
    if not at_the_end:
        places = np.sort(random.choice(context, queries, replace=False))
        places[-1] = context - 1
    return BatchRow(0, queries, context, runs_of(slots[own]), places=places, shared=tuple(shared))


def expected(row, store, turning, query, scaling):
    """Return the output over keys that are brought together, by torch in float32."""
    exact = pool(store.shape.kv_heads, store.shape.head_dim, torch.float32)
    exact.keys[1].copy_(store.keys[1])
    exact.values[1].copy_(store.values[1])
    keys, values = GatheredKeys.of(row, exact, turning).read(exact, 1)
    places = row.places
    if places is None:
        places = np.arange(row.context - row.queries, row.context)
    mask = torch.arange(row.context) <= torch.from_numpy(places)[:, None]
    out = F.scaled_dot_product_attention(
        query.float(), keys, values, attn_mask=mask, scale=scaling, enable_gqa=True
    )
    return out.transpose(0, 1).to(query.dtype)


def attended(row, store, turning, query, scaling=0.3, kernel=None):
    kernel = kernel or find_row_kernel(in_bfloat16=query.dtype is torch.bfloat16).kernel
    out = query.new_empty(query.transpose(0, 1).shape)
    CompiledRows.of([row], kernel, turning).attend(store, 1, query, scaling, out)
    return out


def assert_right(row, store, turning, query, scaling=0.3, kernel=None):
    torch.testing.assert_close(
        attended(row, store, turning, query, scaling, kernel),
        expected(row, store, turning, query, scaling),
        **TOLERANCES[query.dtype],
    )


@pytest.mark.skipif(
    "amx_bf16" not in flags_in_force() or not find_row_kernel(in_bfloat16=True).kernel,
    reason="no kernel for AMX here",
)
@pytest.mark.parametrize("head_dim", [6, 64, 80])
@pytest.mark.parametrize("queries", [1, 45])
def test_a_cpu_with_amx_can_do_without_it(queries, head_dim):
    torch.manual_seed(0)
    kernel = load_kernel(in_bfloat16=True, flags=SETS["avx512"].compiler)
    store, turning = pool(2, head_dim, torch.bfloat16), rotation(head_dim)
    query = torch.randn(6, queries, head_dim, dtype=torch.bfloat16)
    asked = row(queries, [(100, 7), (97, -300)])
    assert_right(asked, store, turning, query, head_dim**-0.5, kernel)


@pytest.mark.parametrize("head_dim", [2, 6, 8, 10, 32, 64, 80, 96, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1), (9, 1)])
@pytest.mark.parametrize("queries", [1, 45])
def test_it_is_one_softmax_over_turned_keys(queries, head_dim, heads, kv_heads, dtype):
    torch.manual_seed(0)
    store, turning = pool(kv_heads, head_dim, dtype), rotation(head_dim)
    asked = row(queries, [(100, 7), (97, -300), (3, 0), (193, 7)])
    query = torch.randn(heads, queries, head_dim, dtype=dtype)
    scaling = head_dim**-0.5
    assert_right(asked, store, turning, query, scaling)


@pytest.mark.parametrize("head_dim", [16, 32, 48, 80, 128])
@pytest.mark.parametrize("heads", range(1, 10))
@pytest.mark.parametrize("chunks", [[(100, 7), (97, -300), (193, 7)], []], ids=["chunks", "own"])
def test_a_decode_reads_each_key_once_for_any_number_of_heads(heads, head_dim, chunks, dtype):
    torch.manual_seed(0)
    store, turning = pool(2, head_dim, dtype), rotation(head_dim)
    query = torch.randn(2 * heads, 1, head_dim, dtype=dtype)
    asked = row(1, chunks, at_the_end=True)
    assert_right(asked, store, turning, query, head_dim**-0.5)


@given(
    queries=st.integers(1, 40),
    chunks=st.lists(st.tuples(st.integers(1, 120), st.integers(-2000, 2000)), max_size=5),
    seed=st.integers(0, 9),
    at_the_end=st.booleans(),
)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_queries_over_any_chunks(dtype, queries, chunks, seed, at_the_end):
    torch.manual_seed(seed)
    store, turning = pool(2, 16, dtype), rotation(16)
    asked = row(queries, chunks, seed, at_the_end=at_the_end)
    query = torch.randn(4, queries, 16, dtype=dtype)
    assert_right(asked, store, turning, query)


def last_of(queries, context, slots):
    """Return a row of the last queries of a prompt so far, its keys in any slots of its own."""
    return BatchRow(0, queries, context, runs_of(slots[:context]))


@pytest.mark.parametrize("tokens", [32, 33, 100, 300])
def test_a_whole_prompt_is_causal(tokens, dtype):
    torch.manual_seed(0)
    store, turning = pool(2, 16, dtype), rotation(16)
    slots = np.random.default_rng(0).permutation(SLOTS)
    query = torch.randn(4, tokens, 16, dtype=dtype)
    assert_right(last_of(tokens, tokens, slots), store, turning, query)


def test_rows_of_a_step_are_computed_in_one_call(dtype):
    torch.manual_seed(0)
    store, turning = pool(2, 16, dtype), rotation(16)
    rows = [row(1, [(50, 3)]), row(70, [(90, 5)], 1), row(2, [], 2)]
    starts = np.cumsum([0, *(each.queries for each in rows)])
    placed = [
        replace(each, query_start=start, query_stop=start + each.queries)
        for each, start in zip(rows, starts, strict=False)
    ]
    query = torch.randn(4, starts[-1], 16, dtype=dtype)
    kernel = find_row_kernel(in_bfloat16=dtype is torch.bfloat16).kernel
    out = query.new_empty(starts[-1], 4, 16)
    CompiledRows.of(placed, kernel, turning).attend(store, 1, query, 0.3, out)
    for each, start in zip(rows, starts, strict=False):
        own = query[:, start : start + each.queries]
        alone = attended(each, store, turning, own)
        assert torch.equal(out[start : start + each.queries], alone)


@pytest.mark.parametrize("first_value", [None, 0.0, 1e30])
def test_what_is_computed_beside_a_query_changes_no_bit(first_value, dtype):
    torch.manual_seed(0)
    store, turning = pool(2, 16, dtype), rotation(16)
    slots = np.random.default_rng(0).permutation(SLOTS)
    query = torch.randn(4, 300, 16, dtype=dtype)
    if first_value is not None:
        store.values[1][:, slots[:77]] = 0.0  # then what is hidden must weigh nothing at all
        store.values[1][:, slots[77:]] = first_value
    whole = attended(last_of(300, 300, slots), store, turning, query)
    in_parts = [
        attended(last_of(stop - start, stop, slots), store, turning, query[:, start:stop])
        for start, stop in ((0, 77), (77, 200), (200, 300))
    ]
    assert torch.equal(torch.cat(in_parts), whole)


def test_queries_may_lie_apart_in_memory(dtype):
    store, turning = pool(2, 16, dtype), rotation(16)
    asked = row(9, [(50, 3)])
    packed = torch.randn(20, 4, 16, dtype=dtype)
    query = packed.transpose(0, 1)[:, 5:14]
    torch.testing.assert_close(
        attended(asked, store, turning, query), attended(asked, store, turning, query.contiguous())
    )
    backwards = torch.randn(4, 16, 9, dtype=dtype).transpose(1, 2)
    assert_right(asked, store, turning, backwards)


def test_scores_may_be_as_large_as_floats_are_exact(dtype):
    store, turning = pool(2, 16, dtype), rotation(16)
    asked = row(9, [(50, 3)])
    query = 1e4 * torch.randn(4, 9, 16, dtype=dtype)
    out = attended(asked, store, turning, query)
    if dtype is torch.float32:
        close = {"rtol": 1e-2, "atol": 1e-2}
        torch.testing.assert_close(out, expected(asked, store, turning, query, 0.3), **close)
    assert out.isfinite().all()


def test_what_is_no_number_stays_none(dtype):
    """A step looks for such rows in its result: none may be smoothed over."""
    store, turning = pool(2, 16, dtype), rotation(16)
    asked = row(9, [(50, 3)])
    query = torch.randn(4, 9, 16, dtype=dtype)
    query[1, 4, 7] = torch.nan
    out = attended(asked, store, turning, query)
    assert out[4, 1].isnan().all()
    assert out[:4].isfinite().all()
    assert out[5:].isfinite().all()
    store.keys[1][0, asked.key_table()[0][0]] = torch.inf
    assert (
        not attended(asked, store, turning, torch.randn(4, 9, 16, dtype=dtype))[:, 0]
        .isfinite()
        .all()
    )


def test_the_number_of_threads_changes_no_bit(dtype):
    store, turning = pool(2, 16, dtype), rotation(16)
    asked = row(40, [(200, 3), (100, 9)])
    query = torch.randn(4, 40, 16, dtype=dtype)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            found.append(attended(asked, store, turning, query))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
