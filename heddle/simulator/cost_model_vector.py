"""The vector index on virtual time: a few small lists, searched exactly."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from heddle.core.passages import Passage
from heddle.core.payloads import SearchPayload
from heddle.core.results import RankedHits
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.allowed import Allowed
from heddle.engines.vector.ivf.scanner_port import ListScanner
from heddle.engines.vector.search import SortedHits, ascending
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.disk import Disk
from heddle.simulator.library import TENANT_OF_FEW, found_by, owner_of

COSTS_S: Mapping[str, float] = MappingProxyType(
    {"call": 1e-4, "lists": 2e-4, "vectors": 2e-5, "scans": 0.0, "rows": 1e-4, "stored": 2e-4}
)


class CostModelScanner:
    """A ListScanner over seeded vectors, whose times are those of a cost model.

    Every list has the same length, so a scan is one array operation.
    """

    def __init__(
        self,
        device: SimulatedDevice,
        *,
        seed: int = 0,
        nlist: int = 12,
        list_size: int = 8,
        dims: int = 4,
    ) -> None:
        draws = np.random.default_rng(seed)
        self._device = device
        self._vectors = draws.standard_normal((nlist, list_size, dims)).astype(np.float32)
        self._vectors /= np.linalg.norm(self._vectors, axis=2, keepdims=True)
        self._centres = self._vectors.mean(axis=1)
        self._labels = np.arange(nlist * list_size, dtype=np.int64).reshape(nlist, list_size)
        self.list_sizes = np.full(nlist, list_size, np.int64)
        self.dims: int | None = dims
        self.nprobe_default = max(1, nlist // 2)
        self.shares_lists = False  # its costs are those of each list for each query

    def heap_size(self, topk: int) -> int:
        """Return the hits wanted: heaps hold nothing else."""
        return topk

    def prepared(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return queries as they are."""
        return queries

    def coarse(self, queries: NDArray[np.float32], nprobe: int) -> NDArray[np.int64]:
        """Return the nearest lists of each query, nearest first, [n, nprobe]."""
        self._device.run(COSTS_S["rows"] * len(queries))
        # Summed along the last axis, a row's distances don't depend on the rows beside it.
        distances = ((queries[:, None, :] - self._centres[None]) ** 2).sum(axis=2)
        return np.argsort(distances, axis=1, kind="stable")[:, :nprobe]

    def scan(
        self,
        queries: NDArray[np.float32],
        lists: NDArray[np.int64],
        distances: NDArray[np.float32],
        labels: NDArray[np.int64],
        allowed: Allowed | None = None,
    ) -> None:
        """Scan these lists; updates the heaps in place."""
        scanned = int((lists >= 0).sum())
        self._device.run(
            COSTS_S["call"]
            + scanned * (COSTS_S["lists"] + COSTS_S["vectors"] * self._vectors.shape[1])
        )
        rows, k = distances.shape
        found = ((queries[:, None, None, :] - self._vectors[lists]) ** 2).sum(axis=3)
        found[lists < 0] = np.inf
        if allowed is not None:
            found[~allowed.holds(self._labels[lists])] = np.inf
        names = np.where(np.isinf(found), -1, self._labels[lists])
        all_distances = np.concatenate([distances, found.reshape(rows, -1)], axis=1)
        all_labels = np.concatenate([labels, names.reshape(rows, -1)], axis=1)
        order = np.lexsort((all_labels, all_distances), axis=1)[:, :k]
        distances[:] = np.take_along_axis(all_distances, order, axis=1)
        labels[:] = np.take_along_axis(all_labels, order, axis=1)

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
        """Compare every allowed vector and return the nearest, [n, topk] each."""
        self._device.run(COSTS_S["call"] + COSTS_S["vectors"] * len(queries) * allowed.count)
        vectors = self._vectors.reshape(-1, self._vectors.shape[2])[allowed.labels]
        distances = ((queries[:, None, :] - vectors[None]) ** 2).sum(axis=2)
        labels = np.tile(allowed.labels, (len(queries), 1))
        order = np.lexsort((labels, distances), axis=1)[:, :topk]
        hits = (len(queries), topk)
        nearest, names = np.full(hits, np.inf, np.float32), np.full(hits, -1, np.int64)
        nearest[:, : order.shape[1]] = np.take_along_axis(distances, order, axis=1)
        names[:, : order.shape[1]] = np.take_along_axis(labels, order, axis=1)
        return ascending(nearest, names)

    def plain_search(
        self, queries: NDArray[np.float32], nprobe: int, allowed: NDArray[np.int64] | None
    ) -> list[tuple[float, int]]:
        """Return what a search of whole lists compares: (distance, label), each row's in turn.

        Takes no time: it is what others are checked by. Shapes: queries [n, d].
        """
        distances = ((queries[:, None, :] - self._centres[None]) ** 2).sum(axis=2)
        lists = np.argsort(distances, axis=1, kind="stable")[:, :nprobe]
        labels = self._labels[lists].reshape(len(queries), -1)
        vectors = self._vectors[lists].reshape(*labels.shape, -1)
        found = ((queries[:, None, :] - vectors) ** 2).sum(axis=2)
        may = np.ones(labels.shape, bool) if allowed is None else np.isin(labels, allowed)
        return list(zip(found[may].tolist(), labels[may].tolist(), strict=True))


class SimulatedCorpus:
    """The IvfCorpus behind a scanner that never changes.

    Stored vectors are noted on the `disk`, which outlives the lane, but never found: what a search
    answers doesn't depend on when it ran. With `has_owners` some chunks are of tenants.
    """

    def __init__(
        self,
        scanner: ListScanner,
        device: SimulatedDevice,
        disk: Disk | None = None,
        *,
        has_owners: bool = False,
    ) -> None:
        self.scanner, self._device, self._has_owners = scanner, device, has_owners
        self._allowed: dict[SearchScope, Allowed] = {}
        self.words = NoWords()
        self.notes: tuple[str, ...] = ()
        self.problems: tuple[str, ...] = ()
        self.disk = disk or Disk()

    @property
    def revision(self) -> int:
        """The corpus revision: it grows with what is stored."""
        return len(self.disk.stored)

    @property
    def has_news(self) -> bool:
        """No: nothing else writes to it."""
        return False

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a search by words has ended."""
        self.words.subscribe(wake)

    def newest_revision(self) -> int:
        """Return the revision; no other process writes."""
        return self.revision

    def ask_newest(self) -> bool:
        """Return False: the revision is at hand."""
        return False

    def asked_newest(self) -> int:
        """Return the revision."""
        return self.revision

    def covers(self, revision: int) -> bool:
        """Always: what is stored is never found."""
        return True

    def allowed(self, scope: SearchScope) -> Allowed | None:
        """Return what a scope lets a search find; None = everything.

        Raises:
            ConfigError: the scope asks for metadata that simulated chunks don't have.
        """
        if not self._has_owners and not scope.where:
            return None
        if scope not in self._allowed:
            chunk_ids = range(int(self.scanner.list_sizes.sum()))
            labels = found_by(scope, chunk_ids, has_owners=self._has_owners)
            self._allowed[scope] = Allowed.of(labels, is_few=scope.tenant == TENANT_OF_FEW)
        return self._allowed[scope]

    def follow(self, *, in_flight: bool, unlimited: Collection[SearchScope] = ()) -> int:
        """Do nothing, as there is nothing to follow."""
        return 0

    def store(self, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> int:
        """Note vectors as committed; return the corpus revision.

        Raises:
            OSError: the disk has failed.
        """
        self._device.run(COSTS_S["stored"] * len(chunk_ids))
        self.disk.write(chunk_ids.tolist())
        return self.revision

    def close(self) -> None:
        """Do nothing, as nothing is held."""


class NoWords:
    """A WordSearcher over vectors without texts: it finds nothing, at once."""

    def __init__(self) -> None:
        self._found: dict[int, RankedHits] = {}

    @property
    def has_results(self) -> bool:
        """Whether a search has begun since the last `take`."""
        return bool(self._found)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Do nothing: what `start` finds is there when it returns."""

    def start(self, task_id: int, payload: SearchPayload) -> None:
        """Find nothing."""
        shape = (payload.rows, payload.topk)
        nothing = RankedHits(np.full(shape, -1, np.int64), np.full(shape, np.inf, np.float32))
        self._found[task_id] = nothing

    def take(self) -> list[tuple[int, RankedHits | Exception]]:
        """Give away what searches have found since."""
        found, self._found = self._found, {}
        return list(found.items())

    def cancel(self, task_id: int) -> None:
        """Forget a search."""
        self._found.pop(task_id, None)


@dataclass(frozen=True, slots=True)
class SimulatedPassages:
    """A PassageSource that makes passages up from their ids."""

    has_owners: bool = False

    def passages(self, chunk_ids: Sequence[int]) -> Sequence[Passage]:
        """Return a passage for each id."""
        return [self._passage(chunk_id) for chunk_id in chunk_ids]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        """Return how many of them are damaged: none."""
        return 0

    def _passage(self, chunk_id: int) -> Passage:
        tenant = owner_of(chunk_id) if self.has_owners else ""
        title, text = f"title {chunk_id}", f"fact {chunk_id}"
        return Passage(chunk_id, f"document {chunk_id // 8}", title, text, tenant=tenant)
