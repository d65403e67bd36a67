"""Attention of scattered queries over a long context, beside what torch offers. (fig. 14b)

Who is compared with whom: one layer's attention for a share of the positions of one prompt, which
see all keys before them, as recomputing selected tokens needs it. heddle: what the engine runs,
the Triton kernel on CUDA (ADR 11), on a CPU the compiled one over chunks that were stored elsewhere
(ADR 23); keys lie in pages, in runs of 256 in no order; storing the new keys is counted. On a CPU,
two alternatives: copies, the compiled kernel over chunks that were turned and copied before
(not counted); gathered, chunks brought together and turned for torch, which it does without a C
compiler. causal: SDPA over all positions, what full attention computes. masked: SDPA of the same
queries with a mask. flex: FlexAttention, compiled (CUDA). What a step needs once for all its layers
is not counted (heddle's plan, masks, block masks); `prepare_ms` shows it. The other contenders get
contiguous keys, the masked one expanded to all heads. All give the same numbers (`rel_diff`).

`--device cuda`: 32 heads of 128 over 8 KV heads, bfloat16, 32k keys; more rows: sixteen decodes,
and other tiles of the kernel. `--device cpu`: 8 heads of 64, float32, 8k keys. The headline is at
15 %. `--device interpret`: as on CUDA, but for FlexAttention, small and in Triton's interpreter.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from heddle.core.errors import InputError
from heddle.engines.llm.attention.choice import COMPILED, TORCH, TRITON, choose_attention
from heddle.engines.llm.attention.compiled_rows import CompiledRows
from heddle.engines.llm.attention.context import AttentionContext, attend
from heddle.engines.llm.attention.gathered_keys import GatheredKeys
from heddle.engines.llm.attention.key_rotation import PairRotation
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.tiles import Tiling
from heddle.engines.llm.attention.tilings import Tilings, tilings_for
from heddle.engines.llm.attention.torch_prompts import query_blocks
from heddle.engines.llm.attention.triton_rows import gpu_of
from heddle.engines.llm.step_batch import BatchRow
from heddle.kernels.compiled_kernel import find_row_kernel
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, SlotRun

RATIOS = (0.05, 0.15, 0.30, 1.0)
HEADLINE_RATIO = 0.15
RUN_TOKENS = 256
DECODES = 16
# Beside the engine's own, all of a size that an H100 can hold.
TILINGS = (
    Tiling(128, 64, 8, 5),
    Tiling(128, 64, 8, 7),
    Tiling(128, 128, 8, 5),
    Tiling(64, 64, 4, 5),
)
# Without the plain one, which would write all weights out.
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]


@dataclass(frozen=True, slots=True)
class Shape:
    """What one layer attends with."""

    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    keys: int


CUDA = Shape(32, 8, 128, torch.bfloat16, 32768)
CPU = Shape(8, 8, 64, torch.float32, 8192)
SMALL = Shape(2, 1, 16, torch.float32, 192)
INTERPRET = "interpret"


def run(quick: bool, seed: int, device: str | None = None) -> dict[str, object]:
    """Measure every ratio; headline: how many times faster heddle's attention is."""
    place = _device(device)
    on_gpu, has_kernel = place.type == "cuda", place.type == "cuda" or device == INTERPRET
    shape = SMALL if device == INTERPRET else CUDA if on_gpu else CPU
    if quick and device != INTERPRET:
        shape = Shape(shape.heads, shape.kv_heads, shape.head_dim, shape.dtype, shape.keys // 8)
    repetitions = (20 if on_gpu else 7) // (4 if quick else 1)
    torch.manual_seed(seed)
    bench = _Bench(shape, place, repetitions, np.random.default_rng(seed), has_kernel)
    rows = [row for ratio in RATIOS for row in bench.ratio(ratio)]
    if has_kernel:
        rows += [*bench.decodes(), *bench.tilings()]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    decided = {row["operator"]: row for row in rows if row.get("ratio") == HEADLINE_RATIO}
    others = ("causal", "masked", "flex") if on_gpu else ("causal", "masked")
    return {
        "settings": {
            "device": torch.cuda.get_device_name(place) if on_gpu else "cpu",
            "shape": f"{shape.heads}/{shape.kv_heads} heads of {shape.head_dim}",
            "dtype": str(shape.dtype),
            "keys": shape.keys,
            "repetitions": repetitions,
            "threads": torch.get_num_threads(),
        },
        "rows": rows,
        "headline": {
            f"x_{name}": float(str(decided[name]["x_heddle"])) for name in others if name in decided
        },
    }


def _device(wanted: str | None) -> torch.device:
    has_gpu = torch.cuda.is_available()
    if wanted is None:
        return torch.device("cuda" if has_gpu else "cpu")
    if wanted == INTERPRET:
        choose_attention(TRITON, on_gpu=False)
        return torch.device("cpu")
    if wanted not in ("cpu", "cuda"):
        raise InputError(f"--device is {wanted!r}; use cpu or cuda")
    if wanted == "cuda" and not has_gpu:
        raise InputError(
            "--device is cuda, and torch finds no CUDA device: run it on a machine with an NVIDIA "
            "GPU and torch for CUDA, or measure the path for CPUs with --device cpu"
        )
    return torch.device(wanted)


@dataclass(slots=True)
class _Bench:
    shape: Shape
    device: torch.device
    repetitions: int
    random: np.random.Generator
    has_kernel: bool = False

    def ratio(self, ratio: float) -> list[dict[str, object]]:
        """Compare all operators at one share of the positions."""
        shape = self.shape
        keys, values = self._noise(shape.kv_heads), self._noise(shape.kv_heads)
        whole = self._noise(shape.heads)
        count = round(ratio * shape.keys)
        places = np.sort(self.random.choice(shape.keys, count, replace=False))
        index = torch.from_numpy(places).to(self.device)
        queries = whole[:, index]
        store, rows = self._rows([places])
        slots = _slots(rows[0])
        store.keys[0][:, slots], store.values[0][:, slots] = keys, values
        new = (keys[:, index], values[:, index])
        on_gpu = self.device.type == "cuda"
        prepared = {
            name: partial(self._attend, store, shown, queries, *new, way)
            for name, (shown, way) in self._ways(rows).items()
        } | {
            "causal": lambda: _sdpa(whole, keys, values, is_causal=True),
            "masked": lambda: self._masked(index, queries, keys, values),
        }
        if on_gpu:
            prepared |= _flex_if_it_compiles(lambda: _flex(index, queries, keys, values))
        calls, prepare_s = {}, {}
        for name, prepare in prepared.items():
            with _stopwatch(self.device) as taken:
                calls[name] = prepare()
            prepare_s[name] = taken[0]
        outputs = {name: call() for name, call in calls.items()}
        outputs |= {name: outputs[name].transpose(0, 1) for name in self._ways(rows)}
        outputs["causal"] = outputs["causal"][:, index]
        seconds = self._seconds(calls)
        flops = 4.0 * shape.heads * shape.head_dim * float((places + 1).sum())
        return [
            {
                "operator": name,
                "ratio": ratio,
                "queries": shape.keys if name == "causal" else count,
                "ms": round(1e3 * seconds[name], 4),
                "x_heddle": round(seconds[name] / seconds["heddle"], 3),
                "useful_tflops": round(flops / seconds[name] / 1e12, 3),
                "prepare_ms": round(1e3 * prepare_s[name], 2),
                "rel_diff": round(_rel_diff(outputs[name], outputs["masked"]), 6),
            }
            for name in calls
        ]

    def decodes(self) -> list[dict[str, object]]:
        """Compare the kernel with torch, row by row, for sequences that decode together."""
        store, rows = self._rows([np.asarray([self.shape.keys - 1])] * DECODES)
        query = self._noise(self.shape.heads, DECODES)
        new = self._noise(self.shape.kv_heads, DECODES)
        calls = {
            name: self._attend(store, rows, query, new, new, way)
            for name, way in (("heddle", TRITON), ("torch", TORCH))
        }
        seconds = self._seconds(calls)
        item = self.shape.dtype.itemsize * self.shape.head_dim * self.shape.kv_heads
        read = 2.0 * DECODES * self.shape.keys * item
        return [
            {
                "operator": f"{name}, {DECODES} decodes",
                "queries": DECODES,
                "ms": round(1e3 * seconds[name], 4),
                "x_heddle": round(seconds[name] / seconds["heddle"], 3),
                "gb_per_s": round(read / seconds[name] / 1e9, 1),
                "rel_diff": round(_rel_diff(calls[name](), calls["torch"]()), 6),
            }
            for name in calls
        ]

    def tilings(self) -> list[dict[str, object]]:
        """Measure the kernel at the headline's ratio with other tiles."""
        shape = self.shape
        count = round(HEADLINE_RATIO * shape.keys)
        places = np.sort(self.random.choice(shape.keys, count, replace=False))
        store, rows = self._rows([places])
        query, new = self._noise(shape.heads, count), self._noise(shape.kv_heads, count)
        own = tilings_for(gpu_of(self.device), shape.dtype.itemsize)
        calls = {
            str(tiling): self._attend(
                store, rows, query, new, new, TRITON, replace(own, large=tiling)
            )
            for tiling in dict.fromkeys((own.large, *TILINGS))
        }
        return [
            {"operator": tiling, "ms": round(1e3 * seconds, 4)}
            for tiling, seconds in self._seconds(calls).items()
        ]

    def _ways(self, rows: tuple[BatchRow, ...]) -> dict[str, tuple[tuple[BatchRow, ...], str]]:
        """Return what the engine runs, and could run, on the rows that it would show."""
        if self.has_kernel:
            return {"heddle": (rows, TRITON)}
        shared = tuple(map(_in_chunks, rows))
        if find_row_kernel().kernel is None:
            return {"heddle": (shared, TORCH)}
        return {
            "heddle": (shared, COMPILED),
            "copies": (rows, COMPILED),
            "gathered": (shared, TORCH),
        }

    def _noise(self, heads: int, tokens: int | None = None) -> Tensor:
        """Return random states. Shapes: result [heads, tokens, head_dim]."""
        size = (heads, tokens or self.shape.keys, self.shape.head_dim)
        return torch.randn(size, device=self.device, dtype=self.shape.dtype)

    def _rows(self, places: list[np.ndarray]) -> tuple[PageStore, tuple[BatchRow, ...]]:
        """Return rows whose runs lie in a pool twice as large, in no order."""
        keys = self.shape.keys
        shape = KvShape(1, self.shape.kv_heads, self.shape.head_dim, self.shape.dtype)
        store = PageStore(shape, 2 * len(places) * keys, self.device)
        for pool in (*store.keys, *store.values):
            pool.normal_()
        starts = iter(self.random.permutation(store.slots // RUN_TOKENS) * RUN_TOKENS)
        rows, first = [], 0
        for own in places:
            runs = tuple(
                SlotRun(int(next(starts)), min(RUN_TOKENS, keys - start))
                for start in range(0, keys, RUN_TOKENS)
            )
            rows.append(BatchRow(first, first + len(own), keys, runs, places=own))
            first += len(own)
        return store, tuple(rows)

    def _attend(
        self,
        store: PageStore,
        rows: tuple[BatchRow, ...],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        way: str,
        tilings: Tilings | None = None,
    ) -> Callable[[], Tensor]:
        """Return what the engine does in one layer of a step."""
        places = [row.key_table()[0][row.places] for row in rows]
        slots = torch.from_numpy(np.concatenate(places)).to(self.device)
        blocks = ((),) * len(rows)
        # Turned by no angle, however far: the numbers stay comparable, and the work is done.
        angles = SimpleNamespace(inv_freq=torch.zeros(self.shape.head_dim // 2))
        still = PairRotation(SimpleNamespace(rotary_emb=angles))
        context = AttentionContext(store, slots, None, rows, blocks, still)
        if way == TRITON:
            planner = RaggedPlanner(store, query.shape[0], still, tilings)
            context = replace(context, ragged=planner.plan(rows))
        elif way == COMPILED:
            kernel = find_row_kernel().kernel
            assert kernel is not None, "rows are only compiled where there is a kernel"
            context = replace(context, compiled=CompiledRows.of(rows, kernel, still))
        else:
            shared = {i: row for i, row in enumerate(rows) if row.shared}
            context = replace(
                context,
                blocks=tuple(query_blocks(row, self.shape.dtype, self.device) for row in rows),
                gathered={i: GatheredKeys.of(row, store, still) for i, row in shared.items()},
            )
        scaling = self.shape.head_dim**-0.5
        return lambda: attend(context, 0, query, key, value, scaling)

    def _masked(
        self, index: Tensor, queries: Tensor, keys: Tensor, values: Tensor
    ) -> Callable[[], Tensor]:
        hidden = torch.arange(self.shape.keys, device=self.device) > index[:, None]
        mask = torch.zeros(hidden.shape, dtype=self.shape.dtype, device=self.device)
        mask.masked_fill_(hidden, float("-inf"))
        group = self.shape.heads // self.shape.kv_heads
        expanded = (states.repeat_interleave(group, dim=0) for states in (keys, values))
        return _sdpa(queries, *expanded, attn_mask=mask)

    def _seconds(self, calls: dict[str, Callable[[], Tensor]]) -> dict[str, float]:
        """Return the median of each, measured in turns."""
        found: dict[str, list[float]] = {name: [] for name in calls}
        for repetition in range(self.repetitions + 2):
            for name, call in calls.items():
                with _stopwatch(self.device) as taken:
                    call()
                if repetition > 1:
                    found[name] += taken
        return {name: statistics.median(taken) for name, taken in found.items()}


def _slots(row: BatchRow) -> np.ndarray:
    """Return where each key of a row lies."""
    return np.concatenate([np.arange(run.start, run.start + run.length) for run in row.runs])


def _in_chunks(row: BatchRow) -> BatchRow:
    """Return a row whose runs are chunks, each stored some other tokens further on."""
    shared, start = [], 0
    for number, run in enumerate(row.runs):
        places = np.arange(start, start + run.length)
        slots = np.arange(run.start, run.start + run.length)
        shared.append(SharedKeys(places, slots, rotation=start - 100 * number - 1))
        start += run.length
    return replace(row, runs=(), shared=tuple(shared))


def _sdpa(query: Tensor, keys: Tensor, values: Tensor, **options: object) -> Callable[[], Tensor]:
    def call() -> Tensor:
        with sdpa_kernel(FUSED):
            return F.scaled_dot_product_attention(
                query[None],
                keys[None],
                values[None],
                enable_gqa=len(query) != len(keys),
                **options,
            )[0]

    return call


def _flex_if_it_compiles(
    prepare: Callable[[], Callable[[], Tensor]],
) -> dict[str, Callable[[], Callable[[], Tensor]]]:
    """Return it by its name; where torch can't compile it, say so: the others are worth timing."""
    try:
        prepare()()
    except Exception as error:  # torch's compiler raises all that its parts do
        print(f"flex is left out: {type(error).__name__}: {error}"[:500], flush=True)
        return {}
    return {"flex": prepare}


def _flex(index: Tensor, query: Tensor, keys: Tensor, values: Tensor) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def sees(batch: Tensor, head: Tensor, query_index: Tensor, key_index: Tensor) -> Tensor:
        return key_index <= index[query_index]

    mask = create_block_mask(
        sees, None, None, query.shape[1], keys.shape[1], device=query.device, _compile=True
    )
    compiled = torch.compile(flex_attention, dynamic=False)
    enable_gqa = len(query) != len(keys)
    return lambda: compiled(
        query[None], keys[None], values[None], block_mask=mask, enable_gqa=enable_gqa
    )[0]


@contextmanager
def _stopwatch(device: torch.device) -> Iterator[list[float]]:
    """Yield a list that holds the seconds once the block has ended, on the device, too."""
    taken: list[float] = []
    if device.type == "cuda":
        torch.cuda._sleep(2_000_000)  # about a millisecond, in which the launches are queued
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        yield taken
        stop.record()
        stop.synchronize()
        taken.append(start.elapsed_time(stop) / 1e3)
    else:
        started_s = time.perf_counter()
        yield taken
        taken.append(time.perf_counter() - started_s)


def _rel_diff(got: Tensor, expected: Tensor) -> float:
    return float((got - expected).float().abs().max() / expected.float().abs().max())
