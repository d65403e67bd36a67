"""Attention over chunks in shared pages, beside copies of them in a row's own pages. (ADR 54)

One layer of 7B's shape: a prompt of which some tokens of each chunk are computed anew, and decodes
of requests that read the same chunks. `shared`: chunks lie as they were stored, and queries are
rotated for each. `copied`: all keys lie in the row's own pages. What a step needs once for all its
layers is timed apart (`plan_ms`).
"""

from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.gpu.kernels import HalvesRotation
from benchmarks.gpu.place import Note, Place
from benchmarks.support.device_scan import median_s
from heddle.engines.llm.attention.ragged_planner import RaggedPlanner
from heddle.engines.llm.attention.triton_rows import attend_ragged
from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.page_store import KvShape, PageStore
from heddle.kv.rows import SharedKeys, SlotRun

PREFIX = QUESTION = 32
RATIO = 0.15
DECODES = 16
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """A prompt of chunks; `computed` are the positions of chunks that are computed anew."""

    chunks: int
    chunk_tokens: int
    computed: np.ndarray

    @classmethod
    def drawn(cls, chunks: int, chunk_tokens: int, ratio: float) -> "Layout":
        """Return one with random positions."""
        tokens = chunks * chunk_tokens
        random = np.random.default_rng(0)
        drawn = random.choice(tokens, round(ratio * tokens), replace=False)
        return cls(chunks, chunk_tokens, np.sort(drawn) + PREFIX)

    @property
    def context(self) -> int:
        """Its tokens."""
        return PREFIX + self.chunks * self.chunk_tokens + QUESTION

    @property
    def slots(self) -> int:
        """Slots for all of it twice: as chunks, and as a row's own."""
        return 2 * self.context

    def row(self, first: int, places: np.ndarray, *, is_shared: bool) -> BatchRow:
        """Return its row in a step whose queries from `first` on stand at these places."""
        stop = first + len(places)
        if not is_shared:
            return BatchRow(first, stop, self.context, (SlotRun(0, self.context),), places=places)
        own = self.context - self.chunks * self.chunk_tokens + len(self.computed)
        return BatchRow(
            first,
            stop,
            self.context,
            (SlotRun(0, own),),
            places=places,
            shared=tuple(map(self._chunk, range(self.chunks))),
        )

    def _chunk(self, number: int) -> SharedKeys:
        start = PREFIX + number * self.chunk_tokens
        every = np.arange(self.chunk_tokens)
        kept = np.setdiff1d(every, self.computed - start)
        slots = self.context + number * self.chunk_tokens + every
        return SharedKeys(start + kept, slots, kept, rotation=start)


def measure(place: Place, note: Note) -> dict[str, float]:
    """Time prompts and decodes over shared chunks and over copies."""
    heads, kv_heads, head_dim = place.sized((28, 4, 128), (4, 2, 16))
    found: dict[str, float] = {}
    for chunks in place.sized((16, 52), (2,)):
        layout = Layout.drawn(chunks, place.sized(512, 24), RATIO)
        store = PageStore(KvShape(1, kv_heads, head_dim, place.dtype), layout.slots, place.device)
        for pool in (*store.keys, *store.values):
            pool.copy_(torch.randn(pool.shape, device=place.device))
        last = np.asarray([layout.context - 1])
        question = np.arange(layout.context - QUESTION, layout.context)
        steps = {
            "prompt": [np.concatenate([layout.computed, question])],
            "decodes": [last] * place.sized(DECODES, 2),
        }
        for step, places in steps.items():
            taken = {}
            for way in ("shared", "copied"):
                firsts = np.cumsum([0, *map(len, places)])
                rows = [
                    layout.row(int(first), own, is_shared=way == "shared")
                    for first, own in zip(firsts, places, strict=False)
                ]
                query = torch.randn((int(firsts[-1]), heads, head_dim), device=place.device)
                query = query.to(place.dtype).transpose(0, 1)
                planner = RaggedPlanner(store, heads, HalvesRotation())
                plan = planner.plan(rows)
                plan_s = median_s(place.device, lambda p=planner, r=rows: p.plan(r), ROUNDS)
                taken[way] = median_s(
                    place.device,
                    lambda p=plan, s=store, q=query: attend_ragged(p, s, 0, q, 0.1),
                    place.sized(ROUNDS, 1),
                )
                row = {"step": step, "chunks": chunks, "keys": way}
                note(row | {"ms": 1e3 * taken[way], "plan_ms": 1e3 * plan_s})
            found[f"x_copied_{step}_{chunks}"] = taken["copied"] / taken["shared"]
    return found
