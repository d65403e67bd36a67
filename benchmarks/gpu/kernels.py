"""Each Triton kernel beside the same written out in torch: wrong ones are named.

Attention: prompts, scattered tokens, decodes and rows together, over keys in no order, in float64
beside it. Scans of hot blocks beside torch's own operations, and an extend of graph searches beside
the one in torch. A case that fails ends no other.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.gpu.place import Note, Place
from heddle.core.errors import InternalError
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.triton_rows import attend_ragged
from heddle.engines.llm.step_batch import BatchRow
from heddle.engines.vector.graph.gpu import reference
from heddle.engines.vector.graph.gpu.search import DeviceSearch, extend_by_kernel
from heddle.engines.vector.graph.graph_index import GraphIndex
from heddle.engines.vector.ivf.hot.block_tier import BlockTier
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, runs_of

# Relative error: ‖got - expected‖ / ‖expected‖.
TOLERANCES = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
SCALE = 0.3
EQUAL = 1e-9
PIECE = 64  # slots of a run, in which neighbouring keys lie
GAP = 7  # of keys that are stored elsewhere: one of this many is the row's own
BLOCKS = 96


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of one step: (context, queries, whether scattered), and a shape of heads.

    `turned`: by how many tokens further on the first half of each row's keys is stored, but for
    every seventh; 0 = none is.
    """

    name: str
    rows: tuple[tuple[int, int, bool], ...]
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    turned: int = 0


@dataclass(frozen=True, slots=True)
class HalvesRotation:
    """RoPE with its pairs in two halves, as `KeyRotation.rotate` is called for a plan."""

    def rotate(self, keys: Tensor, tokens: int, out: Tensor) -> None:
        """Write keys, rotated by a distance. Shapes: keys and out [..., head_dim]."""
        self._turn(keys, torch.tensor(tokens, device=keys.device), out)

    def rotator(self, distances: Tensor) -> Callable[[Tensor], None]:
        """Return what rotates keys each by its own distance. Shapes: distances [n]."""

        return lambda keys: self._turn(keys, distances[:, None], keys)

    @staticmethod
    def _turn(keys: Tensor, distances: Tensor, out: Tensor) -> None:
        half = keys.shape[-1] // 2
        exponents = torch.arange(half, device=keys.device, dtype=torch.float64) / half
        angles = distances * 10000.0**-exponents
        cos, sin = angles.cos(), angles.sin()
        one, other = keys[..., :half].double(), keys[..., half:].double()
        out.copy_(torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1))


def check(place: Place, note: Note) -> dict[str, float]:
    """Run all cases; the headline counts them.

    Raises:
        InternalError: a kernel is wrong; the rows say which.
    """
    cases = [
        *((case.name, lambda case=case: _attention_error(place, case)) for case in _cases(place)),
        ("blocks, half", lambda: _blocks_error(place, torch.float16)),
        ("blocks, whole", lambda: _blocks_error(place, torch.float32)),
        *(
            (f"graph, {parents} parents", lambda parents=parents: _graph_error(place, parents))
            for parents in (1, 4)
        ),
    ]
    wrong, worst = [], 0.0
    for name, error_of in cases:
        row = _tried(name, error_of)
        note(row)
        worst = max(worst, float(str(row["error_over_tolerance"])))
        if row["problem"]:
            wrong.append(f"{name}: {row['problem']}")
    if wrong:
        raise InternalError(f"{len(wrong)} of {len(cases)} cases are wrong: {'; '.join(wrong)}")
    return {"cases": len(cases), "wrong": 0, "worst_error_over_tolerance": worst}


def _tried(name: str, error_of: Callable[[], tuple[float, float]]) -> dict[str, object]:
    """Return a case's row; its first run compiles the kernel."""
    started_s = time.perf_counter()
    try:
        error, tolerance = error_of()
        problem = "" if error <= tolerance else f"error {error:.2g}, allowed {tolerance:.2g}"
        share = error / tolerance
    except Exception as failed:  # of the compiler, the driver or the kernel: noted by its case
        problem, share = f"{type(failed).__name__}: {failed}"[:300], math.inf
    share = share if math.isfinite(share) else 1e9
    return {
        "case": name,
        "error_over_tolerance": round(share, 4),
        "problem": problem,
        "seconds": round(time.perf_counter() - started_s, 2),
    }


def _cases(place: Place) -> Iterator[Case]:
    """Yield what the engine runs first, then what other models and types need.

    Each dtype, size of heads and group is a kernel that takes seconds to compile.
    """
    long = place.sized(8192, 200)
    prompt, some, few = ((long, long // 4, False),), ((long, long // 8, True),), ((long, 1, False),)
    together = (*few, (long // 2, 1, False), (long // 2, long // 8, True), (5, 5, False))
    usual = place.sized((32, 8, 128), (4, 2, 16))
    for name, rows in (("prompt", prompt), ("scattered", some), ("decode", few)):
        yield Case(name, rows, *usual, place.dtype)
    for dtype in place.sized((torch.bfloat16, torch.float32, torch.float16), (torch.float32,)):
        yield Case(f"together, {dtype}", together, *usual, dtype)
        yield Case(f"turned keys, {dtype}", together, *usual, dtype, turned=37)
    for head_dim, group in place.sized(((128, 7), (64, 1), (80, 3)), ((24, 3),)):
        yield Case(f"heads of {head_dim}", together, 2 * group, 2, head_dim, place.dtype)


def _attention_error(place: Place, case: Case) -> tuple[float, float]:
    """Return the error of all rows together, and how much is allowed."""
    random = np.random.default_rng(0)
    rows, slots = _rows(case, random)
    shape = KvShape(1, case.kv_heads, case.head_dim, case.dtype)
    store = PageStore(shape, slots, place.device)
    for pool in (*store.keys, *store.values):
        pool.copy_(torch.randn(pool.shape, device=place.device))
    size = (rows[-1].query_stop, case.heads, case.head_dim)
    query = torch.randn(size, device=place.device).to(case.dtype).transpose(0, 1)
    rotation = HalvesRotation()
    plan = RaggedPlanner(store, case.heads, rotation).plan(rows)
    got = attend_ragged(plan, store, 0, query, SCALE).double()
    expected = torch.cat([_written_out(row, store, query, rotation) for row in rows])
    error = torch.linalg.vector_norm(got - expected) / torch.linalg.vector_norm(expected)
    return float(error), TOLERANCES[case.dtype]


def _rows(case: Case, random: np.random.Generator) -> tuple[list[BatchRow], int]:
    """Return the rows and how many slots hold their keys, whose runs lie in no order."""
    keys = sum(context for context, _, _ in case.rows)
    slots = 2 * PIECE * math.ceil(keys / PIECE)
    pieces = random.permutation(slots // PIECE) * PIECE
    free = (pieces[:, None] + np.arange(PIECE)).ravel()
    rows: list[BatchRow] = []
    first = start = 0
    for context, queries, is_scattered in case.rows:
        own = free[start : start + context]
        places = np.sort(random.choice(context, queries, replace=False)) if is_scattered else None
        every = np.arange(context)
        is_shared = (every < (context // 2 if case.turned else 0)) & (every % GAP != 0)
        there = np.flatnonzero(is_shared)
        shared = (SharedKeys(there, own[there], rotation=-case.turned),) if len(there) else ()
        runs = runs_of(own[~is_shared])
        rows.append(BatchRow(first, first + queries, context, runs, places=places, shared=shared))
        first, start = first + queries, start + context
    return rows, slots


def _written_out(
    row: BatchRow, store: PageStore, query: Tensor, rotation: HalvesRotation
) -> Tensor:
    """Return a row's output in float64, [queries, heads, head_dim]."""
    slots = torch.from_numpy(row.key_table()[0]).to(store.device)
    keys, values = store.keys[0][:, slots].double(), store.values[0][:, slots].double()
    for shared in row.shared:
        at = torch.from_numpy(shared.places).to(store.device)
        turned = torch.empty_like(keys[:, at])
        rotation.rotate(keys[:, at], shared.rotation, turned)
        keys[:, at] = turned
    last = np.arange(row.context - row.queries, row.context)
    places = torch.from_numpy(last if row.places is None else row.places).to(store.device)
    is_hidden = torch.arange(row.context, device=store.device) > places[:, None]
    own = query[:, row.query_start : row.query_stop].double()
    grouped = own.reshape(keys.shape[0], -1, *own.shape[1:])  # [kv_heads, group, queries, dim]
    logits = (grouped @ keys[:, None].transpose(2, 3) * SCALE).masked_fill_(is_hidden, -math.inf)
    return (logits.softmax(dim=-1) @ values[:, None]).flatten(0, 1).transpose(0, 1)


def _blocks_error(place: Place, dtype: torch.dtype) -> tuple[float, float]:
    """Return how far the kernel's distances are from torch's, and how far they may be."""
    count, dims = place.sized((BLOCKS, 384), (4, 20))
    tier = BlockTier(count, dims, dtype, place.device)
    stored = _filled(tier, count)
    queries = torch.randn((8, dims), device=place.device)
    blocks = torch.arange(1, count + 1, device=place.device).expand(8, -1).contiguous()
    got = tier.kernel_distances(queries, blocks)
    exact = (queries.cpu().double()[:, None] - stored.double()[None]).square().sum(dim=2)
    error = torch.linalg.vector_norm(got.cpu().double() - exact) / torch.linalg.vector_norm(exact)
    return float(error), TOLERANCES[torch.float32]


def _filled(tier: BlockTier, count: int) -> Tensor:
    """Copy random vectors into all blocks; return them as they are stored, [rows, dims]."""
    stored, first = [], 0
    while first < count:
        stage = tier.free_stage()
        if stage is None:
            continue
        wanted = min(len(stage.vectors), count - first)
        stage.vectors.normal_()
        stage.labels.zero_()
        stored.append(stage.vectors[:wanted].clone())
        tier.copy_in(stage, np.arange(first + 1, first + wanted + 1))
        first += wanted
    if tier.device.type == "cuda":
        torch.cuda.synchronize(tier.device)
    return torch.cat(stored).flatten(0, 1)


def _graph_error(place: Place, parents: int) -> tuple[float, float]:
    """Return the share of searches that end with other hits than torch's extend gives."""
    graph = _random_graph(*place.sized((20_000, 96), (150, 8)))
    queries = np.random.default_rng(1).integers(-3, 4, (place.sized(64, 3), graph.dims))
    found = [_searched(graph, place, queries, parents, by) for by in (extend_by_kernel, None)]
    return float((found[0] != found[1]).any(axis=1).mean()), EQUAL


def _searched(
    graph: GraphIndex,
    place: Place,
    queries: NDArray[np.int64],
    parents: int,
    extend: Callable[..., None] | None,
) -> NDArray[np.int64]:
    slots = list(range(len(queries)))
    by = reference.extend if extend is None else extend
    search = DeviceSearch(
        graph, place.device, slots=len(slots), topm=32, parents=parents, extend=by
    )
    search.start(slots, queries.astype(np.float32))
    for _ in range(1000):
        if search.advance().all():
            return search.top(slots, 10)[1]
    raise InternalError("searches of a graph don't end")


def _random_graph(count: int, dims: int) -> GraphIndex:
    """Return random edges between points of a coarse grid, whose distances are exact."""
    random = np.random.default_rng(0)
    vectors = random.integers(-3, 4, (count, dims)).astype(np.float16)
    neighbours = random.integers(0, count, (count, 16)).astype(np.int32)
    entries = np.arange(0, count, max(1, count // 50), dtype=np.int32)
    return GraphIndex(vectors, neighbours, np.arange(count), entries)
