"""The Triton kernels behind `triton_rows`; importing this loads triton. (FusionRAG §4.3)

Scores count in base 2: a weight then takes one multiply-add and one `exp2`. Sums are float32.
"""

import triton
import triton.language as tl

from heddle.engines.llm.attention.row_keys import ITEM_FIELDS

MERGED_LINES = 16  # lines of a tile that one program merges
_ITEM_FIELDS = tl.constexpr(ITEM_FIELDS)
_MERGED_LINES = tl.constexpr(MERGED_LINES)


@triton.jit
def attend_items(
    out: tl.tensor,  # [t, heads, HEAD_DIM]
    part_out: tl.tensor,  # [parts, kv_heads, BLOCK_M, HEAD_DIM] float32
    part_lse: tl.tensor,  # [parts, kv_heads, BLOCK_M] float32
    query: tl.tensor,  # [heads, t, HEAD_DIM]
    keys: tl.tensor,  # [kv_heads, slots, HEAD_DIM]
    values: tl.tensor,  # like keys
    items: tl.tensor,  # [items, ITEM_FIELDS] int32
    spans: tl.tensor,  # [spans, 4] int32: start, stop of those all see, stop, distance
    slots: tl.tensor,  # [keys of the step] int32
    key_places: tl.tensor,  # [keys of the step] int32
    places: tl.tensor,  # [t] int32
    partner: tl.tensor,  # [HEAD_DIM] int32
    own_part: tl.tensor,  # [distances, HEAD_DIM] float32
    partner_part: tl.tensor,  # like own_part
    query_head_stride: tl.tensor,
    query_token_stride: tl.tensor,
    pool_head_stride: tl.tensor,
    scale_log2: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    IS_ROTATED: tl.constexpr,
) -> None:
    """Attend a tile of queries to some spans of keys, for one KV head.

    The lines of a tile are pairs (query, head of the group): all of them read the same keys.
    """
    item = items + tl.program_id(0) * _ITEM_FIELDS
    first_line = tl.load(item)
    stop_line = tl.load(item + 1)
    first_span = tl.load(item + 2)
    stop_span = tl.load(item + 3)
    part = tl.load(item + 4)
    kv_head = tl.program_id(1).to(tl.int64)  # offsets into a pool can pass 2^31
    kv_heads = tl.num_programs(1)

    line = first_line + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    is_line = line < stop_line
    is_number = is_line[:, None] & (dims < HEAD_DIM)[None, :]
    token = (line // GROUP).to(tl.int64)
    head = kv_head * GROUP + line % GROUP
    place = tl.load(places + token, mask=is_line, other=-1)
    query_lines = query + head * query_head_stride + token * query_token_stride
    head_keys = keys + kv_head * pool_head_stride
    head_values = values + kv_head * pool_head_stride

    high = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.full([BLOCK_M], 0.0, tl.float32)
    acc = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    for number in range(first_span, stop_span):
        span = spans + 4 * number
        start = tl.load(span)
        seen_by_all = tl.load(span + 1)
        stop = tl.load(span + 2)
        q = tl.load(query_lines[:, None] + dims[None, :], mask=is_number, other=0.0)
        if IS_ROTATED:
            is_dim = dims < HEAD_DIM
            pairs = tl.load(partner + dims, mask=is_dim, other=0)
            q_pair = tl.load(query_lines[:, None] + pairs[None, :], mask=is_number, other=0.0)
            entry = tl.load(span + 3) * HEAD_DIM + dims
            rotated = q.to(tl.float32) * tl.load(own_part + entry, mask=is_dim, other=0.0)[None, :]
            from_pair = tl.load(partner_part + entry, mask=is_dim, other=0.0)[None, :]
            q = (rotated + q_pair.to(tl.float32) * from_pair).to(q.dtype)
        # Most keys lie in whole blocks that all of the queries see: these need no mask.
        middle = start + (seen_by_all - start) // BLOCK_N * BLOCK_N
        acc, high, total = _attend_keys(
            acc, high, total, q, head_keys, head_values, slots, key_places, place, start, middle,
            scale_log2, HEAD_DIM, BLOCK_D, BLOCK_N, False,
        )  # fmt: skip
        acc, high, total = _attend_keys(
            acc, high, total, q, head_keys, head_values, slots, key_places, place, middle, stop,
            scale_log2, HEAD_DIM, BLOCK_D, BLOCK_N, True,
        )  # fmt: skip

    divisor = tl.where(total == 0.0, 1.0, total)  # a part may hold no key that a query sees
    result = acc / divisor[:, None]
    if part < 0:
        out_lines = out + (token * kv_heads * GROUP + head) * HEAD_DIM
        tl.store(out_lines[:, None] + dims[None, :], result, mask=is_number)
    else:
        part_line = (part * kv_heads + kv_head) * BLOCK_M + tl.arange(0, BLOCK_M)
        part_numbers = part_out + part_line[:, None] * HEAD_DIM + dims[None, :]
        tl.store(part_numbers, result, mask=is_number)
        tl.store(part_lse + part_line, high + tl.log2(divisor), mask=is_line)


@triton.jit
def _attend_keys(
    acc: tl.tensor,
    high: tl.tensor,
    total: tl.tensor,
    q: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    slots: tl.tensor,
    key_places: tl.tensor,
    place: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    scale_log2: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    IS_MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Take keys [start, stop) into a softmax: weighted values, highest score, sum of weights.

    Without IS_MASKED the keys are whole blocks that every query sees.
    """
    for first in range(start, stop, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        is_key = key < stop
        slot = tl.load(slots + key, mask=is_key, other=0) if IS_MASKED else tl.load(slots + key)
        k = _load_slots(keys, slot, is_key, HEAD_DIM, BLOCK_D, IS_MASKED)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if IS_MASKED:
            key_place = tl.load(key_places + key, mask=is_key, other=0)
            is_seen = (key_place[None, :] <= place[:, None]) & is_key[None, :]
            scores = tl.where(is_seen, scores, float("-inf"))
        new_high = tl.maximum(high, tl.max(scores, 1) * scale_log2)
        # A query that has seen no key yet: -inf - -inf would be NaN.
        shift = tl.where(new_high == float("-inf"), 0.0, new_high) if IS_MASKED else new_high
        weights = tl.exp2(scores * scale_log2 - shift[:, None])
        kept = tl.exp2(high - shift)
        total = total * kept + tl.sum(weights, 1)
        v = _load_slots(values, slot, is_key, HEAD_DIM, BLOCK_D, IS_MASKED)
        acc = tl.dot(weights.to(v.dtype), v, acc * kept[:, None], input_precision="ieee")
        high = new_high
    return acc, high, total


@triton.jit
def _load_slots(
    pool: tl.tensor,
    slot: tl.tensor,
    is_key: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    IS_MASKED: tl.constexpr,
) -> tl.tensor:
    """Return what lies in these slots, 0 where there is no key: a free slot may hold NaN."""
    dims = tl.arange(0, BLOCK_D)
    numbers = pool + slot.to(tl.int64)[:, None] * HEAD_DIM + dims[None, :]
    if IS_MASKED:
        found = tl.load(numbers, mask=is_key[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    elif HEAD_DIM < BLOCK_D:
        found = tl.load(numbers, mask=(dims < HEAD_DIM)[None, :], other=0.0)
    else:
        found = tl.load(numbers)
    return found


@triton.jit
def merge_parts(
    out: tl.tensor,  # [t, heads, HEAD_DIM]
    part_out: tl.tensor,  # [parts, kv_heads, BLOCK_M, HEAD_DIM] float32
    part_lse: tl.tensor,  # [parts, kv_heads, BLOCK_M] float32
    merges: tl.tensor,  # [tiles in parts, 4] int32: first line, stop line, first part, stop part
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
) -> None:
    """Put a tile together from its parts, each weighted by its sum of exponentials.

    A query may see nothing of its first parts.
    """
    merge = merges + tl.program_id(0) * 4
    stop_line = tl.load(merge + 1)
    kv_head = tl.program_id(2).to(tl.int64)
    kv_heads = tl.num_programs(2)
    in_tile = tl.program_id(1) * _MERGED_LINES + tl.arange(0, _MERGED_LINES)
    line = tl.load(merge) + in_tile
    dims = tl.arange(0, BLOCK_D)
    is_line = line < stop_line
    is_number = is_line[:, None] & (dims < HEAD_DIM)[None, :]

    high = tl.full([_MERGED_LINES], float("-inf"), tl.float32)
    total = tl.full([_MERGED_LINES], 0.0, tl.float32)
    acc = tl.full([_MERGED_LINES, BLOCK_D], 0.0, tl.float32)
    for part in range(tl.load(merge + 2), tl.load(merge + 3)):
        part_line = (part * kv_heads + kv_head) * BLOCK_M + in_tile
        lse = tl.load(part_lse + part_line, mask=is_line, other=0.0)
        part_numbers = part_out + part_line[:, None] * HEAD_DIM + dims[None, :]
        found = tl.load(part_numbers, mask=is_number, other=0.0)
        new_high = tl.maximum(high, lse)
        shift = tl.where(new_high == float("-inf"), 0.0, new_high)  # -inf - -inf would be NaN
        kept = tl.exp2(high - shift)
        weight = tl.exp2(lse - shift)
        total = total * kept + weight
        acc = acc * kept[:, None] + found * weight[:, None]
        high = new_high
    token = (line // GROUP).to(tl.int64)
    out_lines = out + (token * kv_heads * GROUP + kv_head * GROUP + line % GROUP) * HEAD_DIM
    divisor = tl.where(total == 0.0, 1.0, total)  # a recorded step may have merges of no parts
    tl.store(out_lines[:, None] + dims[None, :], acc / divisor[:, None], mask=is_number)
