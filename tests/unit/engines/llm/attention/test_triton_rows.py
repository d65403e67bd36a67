"""The attention kernel against attention written out: in Triton's interpreter, or on a GPU."""

import itertools
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from heddle.engines.llm.attention import tiles
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.tilings import Gpu, tilings_for
from heddle.engines.llm.attention.triton_rows import attend_ragged
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, runs_of
from tests.helpers.triton_compiling import output_uninterpreted

pytest.importorskip("triton", reason="triton isn't installed: pip install 'heddle[gpu]'")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SLOTS = 2048
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3}
# Short parts, so that a few hundred keys make many.
CUT_SHORT = patch.multiple(tiles, PART_KEYS_MIN=32, PROGRAMS_PER_ROW=24)


@dataclass(frozen=True)
class HandRotation:
    """RoPE over the first `dims` of a head, written out."""

    dims: int
    is_interleaved: bool = False

    def rotate(self, keys, tokens, out):
        pairs = self.dims // 2
        angles = 0.7 ** torch.arange(pairs, device=keys.device) * tokens
        if self.is_interleaved:
            first, second = slice(0, self.dims, 2), slice(1, self.dims, 2)
        else:
            first, second = slice(0, pairs), slice(pairs, self.dims)
        exact = keys.float()
        turned = exact.clone()
        turned[..., first] = exact[..., first] * angles.cos() - exact[..., second] * angles.sin()
        turned[..., second] = exact[..., second] * angles.cos() + exact[..., first] * angles.sin()
        out.copy_(turned)

    def rotator(self, distances):
        def rotate(keys):
            for number, tokens in enumerate(distances.tolist()):
                self.rotate(keys[:, number], tokens, keys[:, number])

        return rotate


def pool(head_dim=16, kv_heads=2, dtype=torch.float32):
    """Return a pool whose slots are all free: they hold NaN."""
    store = PageStore(KvShape(1, kv_heads, head_dim, dtype), SLOTS, DEVICE)
    for tensor in (*store.keys, *store.values):
        tensor.fill_(float("nan"))
    return store


class Rows:
    """Rows that are put together by hand; their keys lie in any free slots of the pool."""

    def __init__(self, store, seed=0):
        self.store = store
        self.rows = []
        self._tokens = 0
        self._random = np.random.default_rng(seed)
        # Pieces of the pool in no order: neighbours in a row are seldom neighbours here.
        pieces = np.split(np.arange(SLOTS), np.sort(self._random.choice(SLOTS, 60, replace=False)))
        self._free = np.concatenate([pieces[i] for i in self._random.permutation(len(pieces))])

    def add(self, context, queries=None, places=None, segments=(), gap=0):
        """Add a row; of `segments` (start, stop, rotation) those with a rotation are shared.

        With a `gap`, each position there whose number is a multiple of it is the row's own.
        """
        queries = queries if places is None else len(places)
        own, self._free = self._free[:context], self._free[context:]
        for tensor in (*self.store.keys, *self.store.values):
            noise = self._random.standard_normal((tensor.shape[0], context, tensor.shape[2]))
            tensor[:, own] = torch.from_numpy(noise).to(tensor)
        is_shared = np.zeros(context, np.bool_)
        shared = []
        for start, stop, rotation in segments:
            kept = np.arange(stop - start)
            if gap:
                kept = kept[(start + kept) % gap != 0]
            if rotation and len(kept):
                is_shared[start + kept] = True
                shared.append(SharedKeys(start + kept, own[start:stop], kept, rotation))
        self.rows.append(
            BatchRow(
                self._tokens,
                self._tokens + queries,
                context,
                runs_of(own[~is_shared]),
                places=None if places is None else np.asarray(places),
                shared=tuple(shared),
            )
        )
        self._tokens += queries
        return self

    def query(self, heads):
        noise = self._random.standard_normal((self._tokens, heads, self.store.shape.head_dim))
        return torch.from_numpy(noise).to(DEVICE, self.store.shape.dtype).transpose(0, 1)


def written_out(row, store, query, rotation):
    """Return a row's output, one query after another in float64. Shapes: [queries, heads, dim]."""
    slots, _ = row.key_table()
    keys, values = store.keys[0][:, slots].clone(), store.values[0][:, slots].double()
    for shared in row.shared:
        part = torch.empty_like(keys[:, shared.places])
        rotation.rotate(keys[:, shared.places], shared.rotation, part)
        keys[:, shared.places] = part
    places = row.places if row.places is not None else range(row.context - row.queries, row.context)
    group = query.shape[0] // keys.shape[0]
    out = []
    for place, token in zip(places, range(row.query_start, row.query_stop), strict=True):
        seen = slice(0, int(place) + 1)
        grouped = query[:, token].double().view(keys.shape[0], group, -1)
        weights = (grouped @ keys[:, seen].double().transpose(1, 2) * 0.3).softmax(dim=-1)
        out.append((weights @ values[:, seen]).flatten(0, 1))
    return torch.stack(out)


def check(rows, heads, rotation=None):
    """Compare all rows with what is written out; return the plan."""
    query = rows.query(heads)
    plan = RaggedPlanner(rows.store, heads, rotation).plan(rows.rows)
    got = attend_ragged(plan, rows.store, 0, query, 0.3)
    tolerance = TOLERANCE[rows.store.shape.dtype]
    for row in rows.rows:
        expected = written_out(row, rows.store, query, rotation)
        own = got[row.query_start : row.query_stop].double()
        torch.testing.assert_close(own, expected, rtol=tolerance, atol=tolerance)
    return plan


@st.composite
def layouts(draw):
    """Contexts, queries, segments and gaps of one to three rows."""
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        context = draw(st.integers(1, 150))
        kind = draw(st.sampled_from(["decode", "last", "scattered"]))
        places = [context - 1]
        if kind != "decode":
            count = draw(st.integers(1, min(context, 40)))
            places = list(range(context - count, context))
        if kind == "scattered":
            picked = st.sets(st.integers(0, context - 1), min_size=1, max_size=40)
            places = sorted(draw(picked))
            context = places[-1] + 1
        bounds = sorted(draw(st.sets(st.integers(1, context), max_size=3)) | {0, context})
        rotations = st.sampled_from([0, 0, 5, -3, 40])
        segments = tuple((*ends, draw(rotations)) for ends in itertools.pairwise(bounds))
        rows.append((context, places, segments, draw(st.sampled_from([0, 1, 2, 7]))))
    return rows


# An example takes a second in the interpreter: too long to look for a simpler one.
@settings(max_examples=12, phases=[Phase.generate])
@given(
    layout=layouts(),
    head_dim=st.sampled_from([64, 80, 96, 128]),
    kv_heads=st.integers(1, 2),
    group=st.sampled_from([1, 3, 7, 8]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    rotary=st.sampled_from([HandRotation(64), HandRotation(32), HandRotation(32, True)]),
    seed=st.integers(0, 9),
)
def test_any_rows_equal_attention_written_out(
    layout, head_dim, kv_heads, group, dtype, rotary, seed
):
    rows = Rows(pool(head_dim, kv_heads, dtype), seed)
    for context, places, segments, gap in layout:
        rows.add(context, places=places, segments=segments, gap=gap)
    with CUT_SHORT:
        check(rows, kv_heads * group, rotary)


def test_one_query_and_one_key():
    check(Rows(pool()).add(1, 1), heads=4)


def test_a_decode_over_many_keys_is_cut_into_parts():
    plan = check(Rows(pool()).add(700, 1).add(20, 1), heads=4)
    (launch,) = plan.launches
    assert launch.tiling == tilings_for(None, 4).small
    assert launch.parts == 3
    assert sorted(launch.items[:, 4].tolist()) == [-1, 0, 1, 2]


def test_a_short_question_is_cut_and_a_long_prompt_is_not():
    with patch.object(tiles, "PROGRAMS_PER_ROW", 8):
        plan = RaggedPlanner(pool(), 4, None).plan(Rows(pool()).add(700, 20).add(1100, 300).rows)
    (launch,) = plan.launches
    assert launch.merges[:, :2].tolist() == [[0, 40]]
    assert launch.parts == 3


def test_parts_that_hold_nothing_a_query_sees_add_nothing():
    """Queries at both ends of a row share a tile: the first ones see no key of the later parts."""
    plan = check(Rows(pool()).add(900, places=[0, 1, 30, 31, *range(880, 900)]), heads=2)
    (launch,) = plan.launches
    assert launch.parts > 1


@pytest.mark.slow
def test_what_runs_beside_a_row_changes_no_bit_of_it():
    def first_row(*others):
        rows = Rows(pool(), seed=3).add(300, 1).add(280, places=range(0, 280, 9))
        query = rows.query(6)
        for other in others:
            rows.add(*other)
        query = torch.cat([query, rows.query(6)[:, query.shape[1] :]], dim=1)
        plan = RaggedPlanner(rows.store, 6, None).plan(rows.rows)
        return attend_ragged(plan, rows.store, 0, query, 0.3)[:33]

    assert torch.equal(first_row(), first_row((300, 1), (90, 40), (1, 1)))


def test_a_nan_stays_in_its_row():
    rows = Rows(pool()).add(40, 30).add(50, 20)
    first_slot = rows.rows[0].runs[0].start
    rows.store.values[0][:, first_slot] = float("nan")
    plan = RaggedPlanner(rows.store, 2, None).plan(rows.rows)
    out = attend_ragged(plan, rows.store, 0, rows.query(2), 0.3)
    assert out[:30].isnan().all()
    assert out[30:].isfinite().all()


@settings(max_examples=60)
@given(layout=layouts(), group=st.integers(1, 8))
def test_a_plan_takes_every_key_that_a_query_sees_once_and_none_behind_a_tile(layout, group):
    store = pool()
    rows = Rows(store)
    for context, places, segments, gap in layout:
        rows.add(context, places=places, segments=segments, gap=gap)
    with CUT_SHORT:
        plan = RaggedPlanner(store, 2 * group, HandRotation(16)).plan(rows.rows)
    first_key = np.cumsum([0, *(row.context for row in rows.rows)])
    key_places, key_slots = plan.key_places.tolist(), plan.slots.tolist()
    seen, numbers = {}, {}
    for launch in plan.launches:
        items, spans = launch.items.tolist(), launch.spans.tolist()
        lengths = [sum(stop - start for start, _, stop, _ in spans[i[2] : i[3]]) for i in items]
        assert lengths == sorted(lengths, reverse=True)
        for first, last, low, high, _ in items:
            places = [int(plan.places[line // group]) for line in range(first, last)]
            for start, open_stop, stop, number in spans[low:high]:
                own = key_places[start:stop]
                assert own == sorted(own)
                assert max(own) <= max(places)
                assert open_stop == start + sum(place <= min(places) for place in own)
                numbers |= dict.fromkeys(range(start, stop), number)
                for line, place in zip(range(first, last), places, strict=True):
                    keys = [key for key in range(start, stop) if key_places[key] <= place]
                    seen.setdefault(line, []).extend(keys)
    distances = {}
    for row, start in zip(rows.rows, first_key, strict=False):
        slots, rotations = row.key_table()
        for line in range(row.query_start * group, row.query_stop * group):
            keys = seen[line]
            assert sorted(key_places[key] for key in keys) == list(
                range(int(plan.places[line // group]) + 1)
            )
            for key in keys:
                assert start <= key < start + row.context
                assert key_slots[key] == slots[key_places[key]]
                distances.setdefault(numbers[key], set()).add(int(rotations[key_places[key]]))
    assert all(len(one) == 1 for one in distances.values())
    assert len({*map(tuple, distances.values())}) == len(distances)


GPUS = {  # A100, A10, H100, B200; an L4, 8.9, is compiled for as an A10
    80: Gpu(163 << 10, 8),
    86: Gpu(99 << 10, 8),
    90: Gpu(227 << 10, 9),
    100: Gpu(227 << 10, 10),
}
COMPILE = (
    f"""
from heddle.engines.llm.attention.tilings import Gpu, tilings_for

GPUS = {GPUS}
"""
    + """
from heddle.engines.llm.attention import triton_kernel as kernel
from tests.helpers.triton_compiling import compiled

INDICES = dict.fromkeys(("items", "slots", "places", "spans", "key_places", "partner"), "*i32")
PARTS = {"part_out": "*fp32", "part_lse": "*fp32"}
TYPES = {**INDICES, **PARTS, "own_part": "*fp32", "partner_part": "*fp32", "scale_log2": "fp32"}
WIDE = TYPES | dict.fromkeys(("out", "query", "keys", "values"), "*fp32")

def options(tiling):
    return {"num_warps": tiling.num_warps, "num_stages": tiling.num_stages,
            "BLOCK_M": tiling.lines}

def attend(capability, tiling, types=TYPES, **sizes):
    found = compiled(kernel.attend_items, capability, types, BLOCK_D=128, BLOCK_N=tiling.keys,
                     **sizes, **options(tiling))
    print(capability, found.metadata.shared, int("wgmma" in found.asm["ptx"]))

for capability, gpu in GPUS.items():
    large = tilings_for(gpu, 2).large
    attend(capability, large, HEAD_DIM=128, GROUP=7, IS_ROTATED=capability == 86)
attend(80, tilings_for(GPUS[80], 2).small, HEAD_DIM=80, GROUP=4, IS_ROTATED=True)
attend(86, tilings_for(GPUS[86], 4).small, WIDE, HEAD_DIM=128, GROUP=4, IS_ROTATED=True)
compiled(kernel.merge_parts, 90, {**PARTS, "merges": "*i32"}, HEAD_DIM=96, BLOCK_D=128, GROUP=1,
         **options(tilings_for(GPUS[90], 2).large))
"""
)


@pytest.mark.slow
def test_the_kernels_compile_for_gpus_and_fit_them(tmp_path):
    """The interpreter takes what the compiler refuses. No GPU is needed to compile for one."""
    lines = output_uninterpreted(COMPILE, tmp_path).splitlines()
    found = [tuple(map(int, line.split())) for line in lines]
    itemsizes = [2] * (len(GPUS) + 1) + [4]
    for (capability, shared_bytes, _), itemsize in zip(found, itemsizes, strict=True):
        gpu = GPUS[capability]
        assert shared_bytes <= gpu.shared_bytes
        if capability != 100:  # it has far more than the table's number
            assert shared_bytes <= tilings_for(gpu, itemsize).shared_bytes
    assert [capability for capability, _, has_wgmma in found if has_wgmma] == [90]
