"""The Triton kernels behind `gpu_layers`; importing this loads triton. Sums are float32."""

import triton
import triton.language as tl


@triton.jit
def norm_rows(
    out: tl.tensor,  # [rows, SIZE]
    states: tl.tensor,  # [rows, SIZE]
    weight: tl.tensor,  # [SIZE]
    epsilon: tl.tensor,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """RMSNorm of a row, rounded where transformers rounds it: before the weights, and behind."""
    row = tl.program_id(0).to(tl.int64) * SIZE
    at = tl.arange(0, BLOCK)
    is_number = at < SIZE
    found = tl.load(states + row + at, mask=is_number, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(found * found, axis=0) / SIZE + epsilon)
    weights = tl.load(weight + at, mask=is_number, other=0.0)
    normed = (found * factor).to(weights.dtype).to(tl.float32) * weights.to(tl.float32)
    tl.store(out + row + at, normed.to(weights.dtype), mask=is_number)


@triton.jit
def store_tokens(
    query: tl.tensor,  # [t, HEADS, HEAD_DIM]
    keys: tl.tensor,  # [KV_HEADS, slots, HEAD_DIM]
    values: tl.tensor,  # like keys
    joined: tl.tensor,  # [t, HEADS + 2 * KV_HEADS, HEAD_DIM]
    cos: tl.tensor,  # [t, HEAD_DIM]
    sin: tl.tensor,  # [t, HEAD_DIM]
    slots: tl.tensor,  # [t] int64
    query_weight: tl.tensor,  # [HEAD_DIM], of the norm of queries
    key_weight: tl.tensor,  # [HEAD_DIM], of the norm of keys
    epsilon: tl.tensor,
    head_stride: tl.tensor,  # of keys and values
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,  # at least half of HEAD_DIM
    IS_NORMED: tl.constexpr,
) -> None:
    """Norm and rotate a head of a token; keys and values go to the token's slot."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    half = HEAD_DIM // 2
    at = tl.arange(0, BLOCK)
    is_number = at < half
    row = joined + (token * (HEADS + 2 * KV_HEADS) + head) * HEAD_DIM + at
    one = tl.load(row, mask=is_number, other=0.0)
    other = tl.load(row + half, mask=is_number, other=0.0)
    slot = tl.load(slots + token)
    if head >= HEADS + KV_HEADS:
        place = values + (head - HEADS - KV_HEADS) * head_stride + slot * HEAD_DIM + at
        tl.store(place, one, mask=is_number)
        tl.store(place + half, other, mask=is_number)
    else:
        dtype = one.dtype
        exact, exact_other = one.to(tl.float32), other.to(tl.float32)
        if IS_NORMED:
            squares = tl.sum(exact * exact, axis=0) + tl.sum(exact_other * exact_other, axis=0)
            factor = tl.rsqrt(squares / HEAD_DIM + epsilon)
            if head < HEADS:
                weight = tl.load(query_weight + at, mask=is_number, other=0.0)
                weight_other = tl.load(query_weight + half + at, mask=is_number, other=0.0)
            else:
                weight = tl.load(key_weight + at, mask=is_number, other=0.0)
                weight_other = tl.load(key_weight + half + at, mask=is_number, other=0.0)
            exact = (exact * factor).to(dtype).to(tl.float32) * weight.to(tl.float32)
            exact_other = (exact_other * factor).to(dtype).to(tl.float32)
            exact_other = exact_other * weight_other.to(tl.float32)
        angle = token * HEAD_DIM + at
        turned = exact * tl.load(cos + angle, mask=is_number, other=0.0).to(tl.float32)
        turned -= exact_other * tl.load(sin + angle, mask=is_number, other=0.0).to(tl.float32)
        angle += half
        turned_other = exact_other * tl.load(cos + angle, mask=is_number, other=0.0).to(tl.float32)
        turned_other += exact * tl.load(sin + angle, mask=is_number, other=0.0).to(tl.float32)
        if head < HEADS:
            place = query + (token * HEADS + head) * HEAD_DIM + at
            tl.store(place, turned.to(dtype), mask=is_number)
            tl.store(place + half, turned_other.to(dtype), mask=is_number)
        else:
            place = keys + (head - HEADS) * head_stride + slot * HEAD_DIM + at
            tl.store(place, turned.to(dtype), mask=is_number)
            tl.store(place + half, turned_other.to(dtype), mask=is_number)


@triton.jit
def gate_rows(
    out: tl.tensor,  # [rows, SIZE]
    joined: tl.tensor,  # [rows, 2 * SIZE]: gate, then up
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Multiply what goes up by the SiLU of its gate."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_number = at < SIZE
    gate = tl.load(joined + row * 2 * SIZE + at, mask=is_number, other=0.0).to(tl.float32)
    up = tl.load(joined + row * 2 * SIZE + SIZE + at, mask=is_number, other=0.0)
    gated = gate * tl.sigmoid(gate) * up.to(tl.float32)
    tl.store(out + row * SIZE + at, gated.to(up.dtype), mask=is_number)
