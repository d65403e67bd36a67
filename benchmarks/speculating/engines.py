"""Engines on virtual time whose searches are recorded ones: Heddle's own schedulers over costs."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.speculating.recorded import Recording
from heddle.core.errors import InternalError
from heddle.core.passages import Passage
from heddle.core.ports import SteppedEngine
from heddle.encoder.batch_scheduler import BatchLimits
from heddle.engines.embedding.engine import EmbeddingEngine
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.search import SortedHits, ascending
from heddle.simulator.cost_model_embedding import CostModelEmbeddingWorker
from heddle.simulator.cost_model_llm import EOS_ID, CostModelLlmWorker, WordDecoder
from heddle.simulator.cost_model_vector import SimulatedCorpus
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.port import SimulatedLane
from heddle.workflow.ragraph import DEFAULT_TOPK

# A small reader on one core of a CPU: 155 ms for a prompt of 1,000 tokens, 4 ms a step to decode.
LLM_COSTS_S: Final = {
    "call": 4.1e-3,
    "decode_tokens": 1e-4,
    "prefill_tokens": 1.5e-4,
    "context_tokens": 0.0,
}
LLM_LIMITS: Final = SchedulerLimits(
    max_num_seqs=32,
    max_num_batched_tokens=512,
    page_size=16,
    page_count=4096,
    context_tokens_max=16_384,
)
TOKENS_WRITTEN: Final = 9  # of the cost model's texts, on average
SEARCH_SHARE: Final = 0.4  # of a oneshot's engine time, as `heddle bench workflows` sets it
STEP_S: Final = 1e-4  # of a search step, beside its lists
NEVER: Final = 1e-9  # likelier than nothing: a policy that doesn't ask is shown all hits


class ToldAlways(Finality):
    """Lets a policy that asks for no probability see hits of which none is known."""

    def look(self, task_id: int, scanned: int, labels: NDArray[np.int64]) -> float:
        """Return the probability, or what says that there is none."""
        return max(NEVER, super().look(task_id, scanned, labels))


class RecordedScanner:
    """A ListScanner that brings recorded hits; list n of a query is its n-th nearest.

    A query is the number of its search, as an angle (`NumberedEmbedding`).
    """

    def __init__(self, device: SimulatedDevice, found: Recording) -> None:
        self._device, self._found = device, found
        search_s = SEARCH_SHARE / (1 - SEARCH_SHARE) * _oneshot_s(found)
        self._list_s = search_s / float(np.mean(found.nprobes))
        self.list_sizes = np.ones(found.nlist, np.int64)  # priced by the list
        self.dims: int | None = 2
        self.nprobe_default = found.nprobes[0]
        self.shares_lists = False

    @property
    def costs_s(self) -> dict[str, float]:
        """The costs of a step, by feature [s]."""
        fixed = {"scans": 0.0, "rows": 1e-4, "stored": 0.0}
        return {"call": STEP_S, "lists": self._list_s, "vectors": 0.0, **fixed}

    def heap_size(self, topk: int) -> int:
        """Return the hits wanted."""
        return topk

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries as they are."""
        return queries

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the lists of each query, [n, nprobe]."""
        self._device.run(self.costs_s["rows"] * len(queries))
        return np.tile(np.arange(nprobe), (len(queries), 1))

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> None:
        """Scan these lists; updates the heaps in place."""
        assert allowed is None, "nothing is filtered here"
        self._device.run(STEP_S + self._list_s * int((lists >= 0).sum()))
        for row, number in enumerate(search_numbers(queries, self._found.searches)):
            self._merge(number, lists[row], distances[row], labels[row])

    def hits(
        self,
        queries: NDArray[np.float32],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        topk: int,
    ) -> SortedHits:
        """Return the heaps in order."""
        return ascending(distances, labels)

    def nearest_of(self, queries: NDArray[np.float32], allowed: Allowed, topk: int) -> SortedHits:
        """Never called.

        Raises:
            InternalError: it was.
        """
        raise InternalError("searches of this benchmark have no filter")

    def _merge(
        self,
        number: int,
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
    ) -> None:
        scanned = lists[lists >= 0]  # in order, and without a gap
        if not len(scanned):
            return
        first, stop = self._found.starts[number : number + 2].tolist()
        at = self._found.at[first:stop]
        new = slice(
            first + int(np.searchsorted(at, scanned[0])),
            first + int(np.searchsorted(at, scanned[-1], side="right")),
        )
        every = np.concatenate([distances, self._found.distances[new]])
        names = np.concatenate([labels, self._found.labels[new]])
        order = np.lexsort((names, every))[: len(distances)]
        distances[:], labels[:] = every[order], names[order]


class NumberedEmbedding(CostModelEmbeddingWorker):
    """An embedder whose vectors say which recorded search a text stands for, by their angle."""

    def __init__(self, device: SimulatedDevice, searches: int) -> None:
        super().__init__(device, dims=2)
        self._searches = searches

    def _vector(self, row: Sequence[int]) -> list[float]:
        return [1.0, 1.0 + zlib.crc32(repr(tuple(row)).encode()) % self._searches]


def _oneshot_s(found: Recording) -> float:
    """Return how long the LLM works for a oneshot: a prompt of passages, and a text [s]."""
    tokens = DEFAULT_TOPK * float(found.tokens[found.tokens > 0].mean())
    steps = tokens / LLM_LIMITS.max_num_batched_tokens + TOKENS_WRITTEN
    return steps * LLM_COSTS_S["call"] + tokens * LLM_COSTS_S["prefill_tokens"]


def search_numbers(queries: NDArray[np.float32], searches: int) -> list[int]:
    """Return which recorded search each query stands for."""
    numbers: list[int] = np.rint(queries[:, 1] / queries[:, 0]).astype(np.int64).tolist()
    return [min(max(number - 1, 0), searches - 1) for number in numbers]


@dataclass(frozen=True, slots=True)
class LongPassages:
    """A PassageSource of made-up words, one for each token of the real passages."""

    found: Recording

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return a passage for each id."""
        return [_passage(chunk_id, int(self.found.tokens[chunk_id])) for chunk_id in chunk_ids]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of them are damaged: none."""
        return 0


@cache
def _passage(chunk_id: int, tokens: int) -> Passage:
    text = " ".join(f"{chunk_id}.{number}" for number in range(tokens))
    return Passage(chunk_id, f"document {chunk_id}", "", text)


def lanes(found: Recording, *, always_told: bool) -> tuple[SimulatedLane, ...]:
    """Return the lanes of a server over a recorded index.

    Args:
        found: what its searches find, and when.
        always_told: whether searches report hits of unknown probability, too.
    """
    vector = partial(_vector, found, always_told)
    embedding = partial(_embedding, found.searches)
    return tuple(
        SimulatedLane(name, build, 512)
        for name, build in (("embedding", embedding), ("vector", vector), ("llm", _llm))
    )


def _vector(
    found: Recording, always_told: bool, name: str, epoch: int, device: SimulatedDevice
) -> SteppedEngine:
    scanner = RecordedScanner(device, found)
    corpus = SimulatedCorpus(scanner, device)
    finality = ToldAlways() if always_told else Finality()
    return ivf_engine(
        name, epoch, corpus, device, prior_s=scanner.costs_s, finality=finality, slots=64
    )


def _embedding(searches: int, name: str, epoch: int, device: SimulatedDevice) -> SteppedEngine:
    worker = NumberedEmbedding(device, searches)
    limits = BatchLimits(tokens_max=512, rows_max=16, window_rows=64)
    return EmbeddingEngine(name, epoch, worker, device, limits=limits)


def _llm(name: str, epoch: int, device: SimulatedDevice) -> SteppedEngine:
    slots = LLM_LIMITS.page_count * LLM_LIMITS.page_size
    spec = LlmSpec(LLM_LIMITS, frozenset({EOS_ID}), "cost model", 1, LLM_COSTS_S)
    worker = CostModelLlmWorker(device, slots, LLM_COSTS_S)
    return LlmEngine(name, epoch, worker, spec, WordDecoder(), device)
