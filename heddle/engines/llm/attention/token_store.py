"""New queries are rotated, new keys rotated and stored with their values, in one pass. (ADR 23)"""

from typing import Final

import torch
from torch import Tensor

from heddle.kernels.compiled_kernel import NewTokens, RowKernel
from heddle.kv.page_store import PageStore

TOKENS_ALONE_MAX: Final = 128  # fewer are written before a second thread starts


def store_tokens(
    kernel: RowKernel,
    store: PageStore,
    layer: int,
    slots: Tensor,
    joined: Tensor,
    factors: Tensor,
) -> Tensor:
    """Rotate a layer's new queries and keys to their places; store its keys and values.

    Numbers that are rotated together lie side by side (ADR 10).

    Shapes: slots [t] int64; joined [1, t, (heads + 2 kv_heads) head_dim]: queries, keys, values, in
    the pool's number type; factors [1, t, head_dim / 2] complex64; result [heads, t, head_dim].
    Mutates: the layer's pool.
    """
    kv_heads, _, head_dim = store.keys[layer].shape
    tokens = joined.shape[1]
    heads = joined.shape[2] // head_dim - 2 * kv_heads
    joined, factors = joined.contiguous(), factors.contiguous()
    query = joined.new_empty(tokens, heads, head_dim)
    work = new_tokens(store, layer, slots, joined, factors, query)
    kernel.store(work, 1 if tokens <= TOKENS_ALONE_MAX else torch.get_num_threads())
    return query.transpose(0, 1)


def new_tokens(
    store: PageStore, layer: int, slots: Tensor, joined: Tensor, factors: Tensor, query: Tensor
) -> NewTokens:
    """Return the work of `store_tokens`, of contiguous tensors.

    Shapes: as there; query [t, heads, head_dim].
    """
    keys, values = store.keys[layer], store.values[layer]
    tokens, heads, head_dim = query.shape
    return NewTokens(
        joined=joined.data_ptr(),
        factors=factors.data_ptr(),
        slots=slots.data_ptr(),
        query=query.data_ptr(),
        keys=keys.data_ptr(),
        values=values.data_ptr(),
        pool_head=keys.stride(0),
        tokens=tokens,
        heads=heads,
        kv_heads=len(keys),
        head_dim=head_dim,
    )
