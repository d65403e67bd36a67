"""What a growing corpus costs its index, and what memory it takes. (ADR 16)

Over N synthetic vectors of 384 dimensions in the default kind (codes, float16 refinement):
- `open_s`: opening the saved index as a lane does, and with 2 % and 20 % of N added to the corpus
  since. A tail of 20 % is met after a run that was stopped before it saved; the lane saves it
  beside its searches, once. What reading the vectors from SQLite takes is not in it.
- `follow_ms`: a step in which a lane that serves brings in some of 2 % new vectors, by CPU time.
- `save_s`: writing the whole index anew, as a background thread does after 2 %.
- memory: what the process takes for the open index and the files of it that are mapped, the edges
  of a graph of degree 32 (those of 10,000 vectors, scaled), and a search in flight, by lists and by
  graph. The headline is all of it for N vectors [GB], and a search [KiB].
"""

import math
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.fixed_source import NoSource, Piece
from heddle.core.cache import cache_directory
from heddle.engines.vector.corpus.source import VectorBatch
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.files.manifest import FOLDER
from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.ivf.index_file import open_index, write_index
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.slots import SlotTable

CENTRES: Final = 4096
BLOCK_ROWS: Final = 1024  # vectors drawn together
BLOCKS_KEPT: Final = 32
GRAPH_ROWS: Final = 10_000
TAILS: Final = (0.0, 0.02, 0.2)  # of the vectors that the saved index holds
HEAP: Final = 100  # candidates of a search for 10 hits


@dataclass(frozen=True, slots=True)
class Settings:
    """What is indexed; the cache is keyed by it."""

    count: int
    seed: int
    repetitions: int
    dims: int = 384


class GrowingSource(NoSource):
    """Vectors around fixed centres, drawn when they are read: each block is a revision."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.blocks = settings.count // BLOCK_ROWS
        self._drawn: dict[int, NDArray[np.float32]] = {}
        draws = np.random.default_rng(settings.seed)
        self._centres = draws.standard_normal((CENTRES, settings.dims), np.float32)

    @property
    def embedder(self) -> str:
        return "synthetic"

    @property
    def revision(self) -> int:
        return self.blocks

    @property
    def vector_count(self) -> int:
        return self.blocks * BLOCK_ROWS

    @property
    def dims(self) -> int:
        return self._settings.dims

    def grow(self, share: float) -> None:
        """Add this share of what the saved index holds."""
        self.blocks += math.ceil(share * self._settings.count / BLOCK_ROWS)

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096) -> Iterator[VectorBatch]:
        end = self.vector_count
        for first in range(after_revision * BLOCK_ROWS, end, batch_rows):
            stop = min(first + batch_rows, end)
            blocks = range(first // BLOCK_ROWS, -(-stop // BLOCK_ROWS))
            drawn = np.concatenate([self._block(number) for number in blocks])
            offset = first - blocks[0] * BLOCK_ROWS
            mine = drawn[offset : offset + stop - first]
            yield Piece(np.arange(first, stop) + 1, np.ascontiguousarray(mine))

    def _block(self, number: int) -> NDArray[np.float32]:
        if number not in self._drawn:
            draws = np.random.default_rng([self._settings.seed, number])
            vectors = draws.standard_normal((BLOCK_ROWS, self.dims), np.float32)
            vectors += self._centres[draws.integers(0, CENTRES, BLOCK_ROWS)]
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            while len(self._drawn) >= BLOCKS_KEPT:
                del self._drawn[next(iter(self._drawn))]
            self._drawn[number] = vectors
        return self._drawn[number]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Measure; returns one row for each tail, and the headline."""
    settings = Settings(40 * BLOCK_ROWS, seed, repetitions=1) if quick else _full(seed)
    faiss.omp_set_num_threads(1)
    saved = _saved(settings)
    print(f"{settings.count:,} x {settings.dims}, 1 thread, FAISS {faiss.__version__}")
    memory = _memory(settings, saved)
    rows = [_opened(settings, saved, share) for share in TAILS]
    growth = _growth(settings, saved)
    for row in rows:
        print(f"opened with {row['added']:>7,} vectors added since: {row['open_s']:.2f} s")
    return {
        "settings": asdict(settings),
        "rows": [*rows, memory, growth],
        "headline": _headline(rows, memory, growth),
    }


def prepare(seed: int) -> None:
    """Build and save the index, so that a full run only measures."""
    _saved(_full(seed))


def _full(seed: int) -> Settings:
    return Settings(977 * BLOCK_ROWS, seed, repetitions=3)


def _headline(
    rows: list[dict[str, Any]], memory: dict[str, Any], growth: dict[str, Any]
) -> dict[str, float]:
    return {
        "memory_gb": round(sum(memory["bytes"].values()) / 1e9, 3),
        "search_kib": round(max(memory["search_bytes"].values()) / 1024, 1),
        "open_s": round(rows[0]["open_s"], 2),
        "open_tail_s": round(rows[1]["open_s"], 2),
        "open_long_tail_s": round(rows[-1]["open_s"], 2),
        "follow_ms": round(growth["follow_ms"], 1),
        "follow_ms_max": round(growth["follow_ms_max"], 1),
        "save_s": round(growth["save_s"], 2),
    }


def _saved(settings: Settings) -> Path:
    """Return a corpus directory with the saved index, made where it is missing."""
    name = f"growth-{settings.count}x{settings.dims}-{settings.seed}"
    directory = cache_directory("bench", name)
    open_index(directory, GrowingSource(settings))
    return directory


def _opened(settings: Settings, saved: Path, share: float) -> dict[str, Any]:
    """Time opening the index of a corpus that has grown by a share since."""
    source, times_s = GrowingSource(settings), []
    source.grow(share)
    for _ in range(settings.repetitions):
        began_s = time.perf_counter()
        live = open_index(saved, source, saves_tail=False)
        times_s.append(time.perf_counter() - began_s)
        assert live.count == source.vector_count, "vectors are missing"
    return {"added": source.vector_count - settings.count, "open_s": float(np.median(times_s))}


def _growth(settings: Settings, saved: Path) -> dict[str, Any]:
    """Time the steps that bring 2 % more vectors in, and a save."""
    source = GrowingSource(settings)
    live = open_index(saved, source)
    source.grow(TAILS[1])
    for _ in source.vectors(live.revision):  # drawn now, not in a step
        pass
    times_s = []
    while live.revision < source.revision:
        began_s = time.process_time()
        live.advance(source)
        times_s.append(time.process_time() - began_s)
    with tempfile.TemporaryDirectory(dir=saved.parent) as folder:
        began_s = time.perf_counter()
        write_index(Path(folder), live, source)
        save_s = time.perf_counter() - began_s
    times_ms = np.array(times_s) * 1e3
    return {
        "follow_ms": float(np.median(times_ms)),
        "follow_ms_max": float(times_ms.max()),
        "save_s": save_s,
    }


def _memory(settings: Settings, saved: Path) -> dict[str, Any]:
    """Return the bytes of an open index, of a graph's edges, and of a search in flight."""
    before = _private_bytes()
    live = open_index(saved, GrowingSource(settings))
    private = _private_bytes() - before
    assert live.kind is IndexKind.PQ, "the default kind for so many vectors"
    mapped = _mapped_bytes(saved / FOLDER)
    sample = next(GrowingSource(settings).vectors(batch_rows=GRAPH_ROWS)).vectors
    graph = build_graph(sample, np.arange(GRAPH_ROWS))
    edges = graph.neighbours.nbytes + graph.labels.nbytes + graph.entries.nbytes
    return {
        "bytes": {
            "private": private,
            "mapped": mapped,
            "graph_edges": edges * settings.count // GRAPH_ROWS,
        },
        "search_bytes": {
            "lists": _slot_bytes(live),
            "graph": NumbaWorker(LiveGraph(graph), 2).bytes_per_search,
        },
    }


def _slot_bytes(live: LiveIndex) -> int:
    """Return what the columns of one row in flight take that has every list before it."""
    assert live.dims is not None, "an empty index"
    one, queries = np.zeros(1, np.int64), np.zeros((1, live.dims), np.float32)
    empty = SlotTable(10, HEAP, live.dims)
    empty.add(one, one, one, queries, np.arange(live.nlist)[None, :], one)
    columns = [column for column in vars(empty).values() if isinstance(column, np.ndarray)]
    return sum(column[0].nbytes for column in columns)


def _mapped_bytes(folder: Path) -> int:
    """Return the size of a folder's files in this process, where they are mapped and not read."""
    places = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    own = (place[0].split("-") for place in places if place[-1].startswith(f"{folder.resolve()}/"))
    return sum(int(stop, 16) - int(first, 16) for first, stop in own)


def _private_bytes() -> int:
    """Return the memory of this process that no file backs."""
    found = re.search(r"^Anonymous:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.M)
    assert found, "smaps_rollup has no line Anonymous"
    return int(found[1]) * 1024
