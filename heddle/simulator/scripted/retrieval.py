"""Embedding and search on virtual time, where only lengths and costs count.

A query's text begins with a word such as "q17~30*24": question 17, of 24 tokens. Texts of one
question find the same passages, but for 30 % of them, which depend on the words that follow.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from heddle.core.passages import Passage
from heddle.encoder.tokenized_text import TokenizedText
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.search import SortedHits, ascending
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.counted_text import token_count

DIMS: Final = 3  # of a vector: question, share of other hits [%], words that follow
VARIATIONS: Final = 1 << 20
CHUNKS: Final = 1 << 20
LAST_HIT: Final = (0.8, 1.6)
"""Where in a scan its last hit lies, as a share of its lists: a Beta distribution with these
parameters. It decides when partial hits are final; no run has measured it."""


class ScriptedEmbeddingWorker:
    """An EmbeddingWorker; `costs_s` has the `call`, `tokens` and `texts` of its engine."""

    def __init__(self, device: SimulatedDevice, costs_s: Mapping[str, float]) -> None:
        self._device, self._costs_s = device, costs_s

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return DIMS

    def tokenize(self, texts: Sequence[str]) -> Sequence[TokenizedText]:
        """Return texts of their length; the first token ids say what they find."""
        self._device.run(self._costs_s["texts"] * len(texts))
        return [TokenizedText(_ids(text)) for text in texts]

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return the vectors of a batch [len(rows), dims]."""
        tokens = len(rows) * max(map(len, rows))
        self._device.run(self._costs_s["call"] + self._costs_s["tokens"] * tokens)
        return np.array([row[:DIMS] for row in rows], np.float32)


def _ids(text: str) -> tuple[int, ...]:
    first, _, rest = text.partition(" ")
    question, _, change = first.partition("*")[0].removeprefix("q").partition("~")
    if not question.isdigit():  # a text to be stored
        question, change, rest = "0", "100", text
    variation = zlib.crc32(rest.strip().encode()) % VARIATIONS if rest.strip() else 0
    length = max(DIMS, token_count(text) + 2)
    return (int(question), int(change or 0), variation, *(0,) * (length - DIMS))


class ScriptedScanner:
    """A ListScanner whose lists all take as long.

    Args:
        device: spends the time.
        costs_s: seconds of `call`, `lists`, `scans` and `rows`, the features that an engine over
            inverted lists reports; a list's vectors are part of `lists`. Where lists are shared, of
            `ridden` as well: a further query that shares the scan of a list.
        nlist: how many lists there are.
        nprobe_default: lists that a search scans when it doesn't say.
        shares_lists: whether queries share the scan of a list. Each question's nearest lists are
            drawn evenly from all of them, so two share as many as chance has it.
    """

    def __init__(
        self,
        device: SimulatedDevice,
        costs_s: Mapping[str, float],
        *,
        nlist: int,
        nprobe_default: int,
        shares_lists: bool = False,
    ) -> None:
        self._device, self._costs_s = device, costs_s
        self.dims: int | None = DIMS
        self.list_sizes = np.ones(nlist, np.int64)
        self.nprobe_default = nprobe_default
        self.shares_lists = shares_lists

    def heap_size(self, topk: int) -> int:
        """Return the hits wanted: heaps hold nothing else."""
        return topk

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries with room for how many lists they scan, which `coarse` fills in."""
        return np.concatenate([queries, np.zeros((len(queries), 1), np.float32)], axis=1)

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the lists of each query, [n, nprobe], the nearest first.

        Mutates: notes `nprobe` in the queries.
        """
        self._device.run(self._costs_s["rows"] * len(queries))
        queries[:, DIMS] = nprobe
        return np.stack([self._nearest(query)[:nprobe] for query in queries])

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> None:
        """Scan these lists; updates the heaps in place."""
        is_scanned = lists >= 0
        scanned = int(is_scanned.sum())
        read = int(is_scanned.any(axis=0).sum()) if self.shares_lists else scanned
        costs_s = self._costs_s
        seconds = costs_s["call"] + costs_s["scans"] * len(lists) + costs_s["lists"] * read
        if self.shares_lists:
            seconds += costs_s["ridden"] * (scanned - read)
        self._device.run(seconds)
        topk = distances.shape[1]
        for row, query in enumerate(queries):
            question, change, variation, nprobe = map(int, query.tolist())
            own = set(lists[row, is_scanned[row]].tolist())
            nearest = self._nearest(query)
            found = _hits(question, change, variation, nprobe, topk)
            for place, (rank, label) in enumerate(found):
                if nearest[rank] in own:
                    distances[row, place], labels[row, place] = place, label

    def _nearest(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return all lists, those nearest to a query first."""
        nlist = len(self.list_sizes)
        return _shuffled(int(query[0]), nlist) if self.shares_lists else _counted(nlist)

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
        """Not here: no search has a filter.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("scripted searches have no filter")


@lru_cache(maxsize=1 << 12)
def _shuffled(question: int, nlist: int) -> NDArray[np.int64]:
    return np.random.default_rng((question, nlist)).permutation(nlist)


@lru_cache(maxsize=8)
def _counted(nlist: int) -> NDArray[np.int64]:
    return np.arange(nlist)


@lru_cache(maxsize=1 << 12)
def _hits(
    question: int, change: int, variation: int, nprobe: int, topk: int
) -> tuple[tuple[int, int], ...]:
    """Return the hits of a query: in its how many-th list each lies, and its label."""
    draws = np.random.default_rng((question, variation, topk))
    own = np.random.default_rng((question, topk)).integers(CHUNKS)
    other = int(draws.integers(CHUNKS))
    is_other = draws.random(topk) * 100 < (change if variation else 0)
    last = draws.beta(*LAST_HIT)
    places = draws.random(topk) * last
    places[draws.integers(topk)] = last
    ranks = np.minimum(nprobe - 1, (places * nprobe).astype(np.int64)).tolist()
    labels = [(other if changed else int(own)) + n for n, changed in enumerate(is_other.tolist())]
    return tuple(zip(ranks, (label % CHUNKS for label in labels), strict=True))


@dataclass(frozen=True, slots=True)
class ScriptedPassages:
    """A PassageSource: passage i has one of these lengths [tokens], drawn from i."""

    lengths: Sequence[int]

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return a passage for each id."""
        return [_passage(chunk_id, self._length(chunk_id)) for chunk_id in chunk_ids]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of them are damaged: none."""
        return 0

    def _length(self, chunk_id: int) -> int:
        return self.lengths[zlib.crc32(str(chunk_id).encode()) % len(self.lengths)]


@lru_cache(maxsize=1 << 14)
def _passage(chunk_id: int, length: int) -> Passage:
    return Passage(chunk_id, f"document {chunk_id}", "", f"c{chunk_id}*{length}")
