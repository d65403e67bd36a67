"""Sub-stages on the real FAISS engine: searches are cut, and find what they found uncut."""

import asyncio
from collections.abc import Callable

import faiss
import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.credits import Credits
from heddle.core.frames import Done, Frame
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Vectors
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.perf_clock import PerfClock
from heddle.hosts.inline import InlineHost
from heddle.passes.cycle_view import CycleView, SetBudget
from heddle.passes.runner import PassRunner
from heddle.runtime.batching import topology_aware
from heddle.runtime.clock import SystemClock
from heddle.runtime.handle import Handle
from heddle.runtime.loop import RuntimeLoop
from heddle.runtime.region_plan import RegionPlanner
from heddle.runtime.runtime import Runtime
from heddle.workflow.ragraph import RAGraph

COUNT, DIMS, QUERIES = 20_000, 64, 24


class TableEmbedding:
    """An EnginePort that answers the text "7" with query vector 7."""

    name = "embedding"
    kinds = frozenset({PrimitiveKind.EMBEDDING})
    epoch = 1

    def __init__(self, queries: np.ndarray) -> None:
        self.credits = Credits(256)
        self._queries = queries
        self._frames: list[Frame] = []

    def subscribe(self, wake) -> None:
        self._wake = wake

    def frames(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def send(self, command) -> None:
        if isinstance(command, Admit):
            rows = [int(text) for text in command.task.payload.texts]
            done = Done(command.task.task_id, Vectors(self._queries[rows]))
            self._frames.append(Frame(self.name, 1, 0.0, (done,)))
            self._wake()


class Corpus:
    """A VectorSource of one batch."""

    embedder = "fake"
    revision = 1
    dims = DIMS
    vector_count = COUNT

    def __init__(self, vectors: np.ndarray) -> None:
        self.rows = vectors

    def ask_revision(self) -> None:
        return None

    def vectors(self, after_revision: int = 0, batch_rows: int = 4096):
        if after_revision < 1:
            for first in range(0, COUNT, batch_rows):
                part = self.rows[first : first + batch_rows]
                yield type(
                    "Batch", (), {"chunk_ids": np.arange(first, first + len(part)), "vectors": part}
                )

    def deleted(self, after_revision: int) -> np.ndarray:
        return np.empty(0, np.int64)

    def allowed(self, scope: SearchScope) -> None:
        return None

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Nothing changes."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((COUNT, DIMS)).astype(np.float32)
    faiss.normalize_L2(vectors)
    return Corpus(vectors)


class Cut:
    """Cuts searches into steps far shorter than one, whether that pays or not."""

    name = "cut"

    def apply(self, view: CycleView) -> tuple[SetBudget, ...]:
        is_set = view.engines["vector"].budget_s is not None
        return () if is_set else (SetBudget("vector", 1e-4, 0.0),)


def serve(corpus: Corpus, passes: tuple[Cut, ...]) -> tuple[list[object], int, object]:
    """Run all queries; return the passages, the engine's frames and the budget it was given."""
    worker = FollowedIvf(LiveIndex.build(corpus, kind=IndexKind.FLAT), corpus, 256, 1)
    # Steps as long as a whole search by default: every shorter one comes from the pass.
    engine = ivf_engine("vector", 1, worker, PerfClock(), substage_budget_s=10.0)
    queries = corpus.rows[:QUERIES] + 0.05

    async def run():
        clock = SystemClock()
        host = InlineHost(engine, 256, clock)
        frames = 0
        original = host.frames

        def counted():
            nonlocal frames
            arrived = original()
            frames += len(arrived)
            return arrived

        host.frames = counted
        runner = PassRunner(clock, cycle_passes=passes)
        runtime = Runtime((TableEmbedding(queries), host), RegionPlanner(runner), topology_aware)
        driver = RuntimeLoop(runtime, clock, asyncio.get_running_loop())
        driver.start()
        workflow = RAGraph().add_retrieval("search", query="query", topk=5).compile()

        async def ask(text: str):
            handle = Handle(lambda: None)
            runtime.submit(workflow, {"query": text}, handle.push, now_s=clock.now_s())
            driver.wake()
            return (await handle).passages

        found = [await ask("0")]
        found += await asyncio.gather(*(ask(str(i)) for i in range(QUERIES)))
        return found, frames, runtime.lanes["vector"].steered

    return asyncio.run(run())


def test_searches_are_cut_and_find_the_same(corpus: Corpus) -> None:
    cut, frames_cut, steered = serve(corpus, (Cut(),))
    whole, frames_whole, never = serve(corpus, ())
    assert cut == whole
    assert never is None
    assert steered is not None
    assert frames_cut > frames_whole
