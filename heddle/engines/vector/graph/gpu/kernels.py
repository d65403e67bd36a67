"""The Triton kernel that extends searches; importing this loads triton. (Trinity §3.2)"""

import triton
import triton.language as tl


@triton.jit
def extend_slots(
    vectors: tl.tensor,  # [n + 1, DIMS] float16
    neighbours: tl.tensor,  # [n + 1, DEGREE] int32
    queries: tl.tensor,  # [S, DIMS] float32
    ids: tl.tensor,  # [S, TOPM] int32
    distances: tl.tensor,  # [S, TOPM] float32
    is_expanded: tl.tensor,  # [S, TOPM] int32
    visited: tl.tensor,  # [S, PLACES] int32
    is_over: tl.tensor,  # [S] int32
    extends: tl.tensor,  # [S] int32
    n: tl.tensor,
    TOPM: tl.constexpr,
    PARENTS: tl.constexpr,
    DEGREE: tl.constexpr,
    PLACES: tl.constexpr,
    DIMS: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """One extend of one slot, from the choice of parents to the merge, in registers.

    The merge needs no sort: where an entry goes is how many others are nearer.
    """
    slot = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, TOPM)
    top_id = tl.load(ids + slot * TOPM + place)
    top_distance = tl.load(distances + slot * TOPM + place)
    top_expanded = tl.load(is_expanded + slot * TOPM + place)

    # Parents: the first of the topM that aren't expanded; n where there is none.
    is_open = (top_expanded == 0) & (top_id < n)
    turn = tl.cumsum(is_open.to(tl.int32), axis=0)
    task = tl.arange(0, PARENTS * DEGREE)
    parent = tl.full([PARENTS * DEGREE], 0, tl.int32)
    for p in tl.static_range(PARENTS):
        is_chosen = is_open & (turn == p + 1)
        found = tl.sum(is_chosen.to(tl.int32), axis=0)
        chosen = tl.sum(tl.where(is_chosen, top_id, 0), axis=0)
        parent = tl.where(task // DEGREE == p, tl.where(found > 0, chosen, n), parent)
        top_expanded = tl.where(is_chosen, 1, top_expanded)

    # Tasks: their neighbours, but for what was visited, repeats or is in the topM.
    node = tl.load(neighbours + parent.to(tl.int64) * DEGREE + task % DEGREE)
    bucket = ((node.to(tl.int64) * 0x9E3779B1) >> 7) & (PLACES - 1)
    seen = tl.load(visited + slot * PLACES + bucket)
    is_repeated = tl.sum(
        ((node[:, None] == node[None, :]) & (task[None, :] < task[:, None])).to(tl.int32), axis=1
    )
    is_new = (node < n) & (seen != node) & (is_repeated == 0)
    tl.store(visited + slot * PLACES + bucket, node, mask=is_new)
    is_in = tl.sum((node[:, None] == top_id[None, :]).to(tl.int32), axis=1)

    total = tl.zeros([PARENTS * DEGREE], dtype=tl.float32)
    for first in tl.static_range(0, DIMS, BLOCK_D):
        dim = first + tl.arange(0, BLOCK_D)
        is_dim = dim < DIMS
        query = tl.load(queries + slot * DIMS + dim, mask=is_dim, other=0.0)
        at = node.to(tl.int64)[:, None] * DIMS + dim[None, :]
        value = tl.load(vectors + at, mask=is_new[:, None] & is_dim[None, :], other=0.0)
        difference = value.to(tl.float32) - query[None, :]
        total += tl.sum(difference * difference, axis=1)

    # Merge: each entry goes to the place that as many nearer ones leave it.
    is_kept = is_new & (is_in == 0)
    new_distance = tl.where(is_kept, total, float("inf"))
    new_id = tl.where(is_kept, node, n)
    new_before_top = (new_distance[None, :] < top_distance[:, None]) | (
        (new_distance[None, :] == top_distance[:, None]) & (new_id[None, :] < top_id[:, None])
    )
    new_before_new = (new_distance[None, :] < new_distance[:, None]) | (
        (new_distance[None, :] == new_distance[:, None]) & (new_id[None, :] < new_id[:, None])
    )
    top_to = place + tl.sum((new_before_top & is_kept[None, :]).to(tl.int32), axis=1)
    behind_top = tl.sum((~new_before_top).to(tl.int32), axis=0)
    new_to = behind_top + tl.sum((new_before_new & is_kept[None, :]).to(tl.int32), axis=1)
    row = slot * TOPM
    stays = top_to < TOPM
    enters = is_kept & (new_to < TOPM)
    tl.store(ids + row + top_to, top_id, mask=stays)
    tl.store(distances + row + top_to, top_distance, mask=stays)
    tl.store(is_expanded + row + top_to, top_expanded, mask=stays)
    tl.store(ids + row + new_to, new_id, mask=enters)
    tl.store(distances + row + new_to, new_distance, mask=enters)
    tl.store(is_expanded + row + new_to, tl.zeros_like(new_id), mask=enters)

    has_extended = tl.sum(is_open.to(tl.int32), axis=0) > 0
    tl.store(extends + slot, tl.load(extends + slot) + has_extended.to(tl.int32))
    left = tl.sum((stays & (top_expanded == 0) & (top_id < n)).to(tl.int32), axis=0)
    left += tl.sum(enters.to(tl.int32), axis=0)
    tl.store(is_over + slot, (left == 0).to(tl.int32))
