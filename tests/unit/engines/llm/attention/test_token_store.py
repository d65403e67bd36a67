"""New tokens stored by the compiled kernel lie where torch would have put them."""

from types import SimpleNamespace

import pytest
import torch

from heddle.engines.llm.attention.key_rotation import PairRotation, rotated
from heddle.engines.llm.attention.token_store import TOKENS_ALONE_MAX, store_tokens
from heddle.kernels.compiled_kernel import find_row_kernel
from heddle.kv.page_store import KvShape, PageStore

SLOTS = 400


@pytest.mark.parametrize(
    ("dtype", "close"),
    [
        (torch.float32, {"rtol": 1e-5, "atol": 1e-6}),
        (torch.bfloat16, {"rtol": 8e-3, "atol": 8e-3}),
    ],
    ids=str,
)
@pytest.mark.parametrize("tokens", [1, 17, TOKENS_ALONE_MAX + 33])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 4, 32), (6, 2, 64), (3, 1, 10)])
def test_keys_values_and_queries_are_torch_s(tokens, heads, kv_heads, head_dim, dtype, close):
    kernel, problem = find_row_kernel(in_bfloat16=dtype is torch.bfloat16)
    if kernel is None:
        pytest.skip(f"no kernel here: {problem or 'the CPU is slow in bfloat16'}")
    torch.manual_seed(0)
    frequencies = 1e4 ** -(torch.arange(0, head_dim, 2) / head_dim)
    rotation = PairRotation(SimpleNamespace(rotary_emb=SimpleNamespace(inv_freq=frequencies)))
    joined = torch.randn(1, tokens, (heads + 2 * kv_heads) * head_dim, dtype=dtype)
    positions = torch.randint(0, 3000, (1, tokens))
    (turns,) = rotation.embeddings(joined, positions)
    slots = torch.randperm(SLOTS)[:tokens]
    store = PageStore(KvShape(2, kv_heads, head_dim, dtype), SLOTS, torch.device("cpu"))
    for pool in (*store.keys, *store.values):
        pool.normal_()
    keys, values = store.keys[1].clone(), store.values[1].clone()
    others = (store.keys[0].clone(), store.values[0].clone())
    states = joined.view(tokens, -1, head_dim)
    turned = rotated(states, turns[0, :, None]).to(dtype)
    keys[:, slots] = turned[:, heads : heads + kv_heads].transpose(0, 1)
    values[:, slots] = states[:, heads + kv_heads :].transpose(0, 1)

    query = store_tokens(kernel, store, 1, slots, joined, turns)

    torch.testing.assert_close(query, turned[:, :heads].transpose(0, 1), **close)
    torch.testing.assert_close(store.keys[1], keys, **close)
    assert torch.equal(store.values[1], values)
    assert torch.equal(store.keys[0], others[0])
    assert torch.equal(store.values[0], others[1])
