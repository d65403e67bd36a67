"""A corpus in memory, clustered vectors, and an engine driven to the end."""

from dataclasses import dataclass

import faiss
import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.errors import InputError, Unreachable
from heddle.core.frames import TERMINAL
from heddle.core.payloads import IngestPayload, SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Priority, Task
from heddle.engines.vector.kernels.sum_order import SumOrder

DIMS = 16
FAISS_LEVELS = {
    SumOrder.SSE: faiss.SIMDLevel_NONE,
    SumOrder.AVX2: faiss.SIMDLevel_AVX2,
    SumOrder.AVX512: faiss.SIMDLevel_AVX512,
}


@pytest.fixture(params=SumOrder, ids=lambda order: order.name)
def faiss_order(request):
    """An order of sums, which FAISS follows during the test."""
    config, level = faiss.SIMDConfig, FAISS_LEVELS[request.param]
    if not config.is_simd_level_available(level):
        pytest.skip(f"this processor has no {request.param.name}")
    before = config.get_level()
    config.set_level(level)
    yield request.param
    config.set_level(before)


@dataclass(frozen=True)
class Batch:
    chunk_ids: np.ndarray
    vectors: np.ndarray


class MemorySource:
    """VectorSource over dictionaries: a row is live from the revision that wrote it."""

    embedder = "fake/16"
    origin = ""

    def __init__(self, vectors=None):
        self.revision = 0
        self.rows = {}  # chunk id -> (revision, vector)
        self.tombstones = []  # (revision, chunk id)
        self.metadata = {}  # (key, value) -> chunk ids
        self.tenants = {}  # chunk id -> tenant, where it has one
        if vectors is not None and len(vectors):
            self.store_vectors(range(1, len(vectors) + 1), vectors)

    @property
    def vector_count(self):
        return len(self.rows)

    def ask_revision(self):
        return None

    @property
    def dims(self):
        return next((len(vector) for _, vector in self.rows.values()), None)

    def count_part(self, number, of):
        return sum(i % of == number for i in self.rows)

    def vectors(self, after_revision=0, batch_rows=100, *, number=0, of=1):
        fresh = [(i, v) for i, (r, v) in sorted(self.rows.items()) if r > after_revision]
        fresh = [(i, v) for i, v in fresh if i % of == number]
        for first in range(0, len(fresh), batch_rows):
            part = fresh[first : first + batch_rows]
            yield Batch(np.array([i for i, _ in part]), np.array([v for _, v in part], np.float32))

    def deleted(self, after_revision):
        return np.array([i for r, i in self.tombstones if r > after_revision], np.int64)

    def is_limited(self, scope):
        return bool(scope.where) or any(t != scope.tenant for t in self.tenants.values())

    def allowed(self, scope):
        if not self.is_limited(scope):
            return None
        found = {i for i in self.rows if self.tenants.get(i, "") in ("", scope.tenant)}
        for key, values in scope.where:
            found &= {i for value in values for i in self.metadata.get((key, value), ())}
        if not found:
            raise InputError(f"where: no passage has {scope}")
        return np.array(sorted(found), np.int64)

    def by_words(self, text, limit, scope, is_cancelled):
        """Find the chunks whose numbers are in the text, in its order."""
        allowed = self.allowed(scope)
        ids = [i for i in map(int, text.split()) if i in self.rows]
        ids = [i for i in ids if allowed is None or i in allowed][:limit]
        vectors = np.array([self.rows[i][1] for i in ids], np.float32)
        return Batch(np.array(ids, np.int64), vectors.reshape(len(ids), self.dims))

    def subscribe(self, on_change):
        self.on_change = on_change

    def store_vectors(self, chunk_ids, vectors):
        self.revision += 1
        for chunk_id, vector in zip(chunk_ids, vectors, strict=True):
            self.rows[int(chunk_id)] = (self.revision, np.array(vector, np.float32))
        return self.revision

    def close(self):
        """Hold nothing."""

    def delete(self, chunk_ids):
        self.revision += 1
        for chunk_id in chunk_ids:
            del self.rows[chunk_id]
            self.tombstones.append((self.revision, chunk_id))


class DistantSource(MemorySource):
    """A corpus that can't be reached while it `is_away`."""

    is_away = False
    newest = 0

    @property
    def revision(self):
        return self.look() or self.newest

    @revision.setter
    def revision(self, value):
        self.newest = value

    def look(self):
        if self.is_away:
            raise Unreachable("the database can't be reached")

    def is_limited(self, scope):
        return self.look() or super().is_limited(scope)


def clustered(count, seed=0, dims=DIMS, clusters=24):
    """Unit vectors around a few centres, with exact duplicates."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, dims))
    vectors = centres[rng.integers(0, clusters, count)] + 0.5 * rng.standard_normal((count, dims))
    vectors[count // 2 : count // 2 + count // 8] = vectors[: count // 8]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors, np.float32)


class ManualClock:
    def __init__(self):
        self.time_s = 0.0

    def now_s(self):
        return self.time_s


class ScannedBy:
    """The corpus behind inverted lists, with a scanner around its own."""

    def __init__(self, corpus, around):
        self._corpus, self._around = corpus, around

    def __getattr__(self, name):
        return getattr(self._corpus, name)

    @property
    def scanner(self):
        return self._around(self._corpus.scanner)


class Tools:
    """What the tests of this folder share."""

    Source, DistantSource, Clock = MemorySource, DistantSource, ManualClock
    ScannedBy, dims = ScannedBy, DIMS
    clustered = staticmethod(clustered)

    @staticmethod
    def search(task_id, queries, topk=5, nprobe=None, *, priority=Priority.NORMAL, report_every=0):
        payload = SearchPayload(queries, topk, nprobe)
        identity = Identity(task_id, "search", priority=priority)
        return Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload), report_every)

    @staticmethod
    def ingest(task_id, chunk_ids, vectors, *, priority=Priority.NORMAL):
        payload = IngestPayload(np.asarray(chunk_ids, np.int64), vectors)
        identity = Identity(task_id, "ingest", priority=priority)
        return Admit(Task(task_id, PrimitiveKind.INGESTION, identity, payload), 0)

    @staticmethod
    def drain(engine, budget_s=float("inf"), steps_max=10_000):
        """Step until there is no work; return the events, oldest first."""
        events = []
        for _ in range(steps_max):
            if not engine.has_work:
                return events
            events += engine.step(0.0, budget_s).events
        raise AssertionError(f"the engine still has work after {steps_max} steps")

    @staticmethod
    def terminals(events):
        """Return {task id: its one terminal event}."""
        found = {}
        for event in events:
            if isinstance(event, TERMINAL):
                assert event.task_id not in found, f"two terminal events for {event.task_id}"
                found[event.task_id] = event
        return found


@pytest.fixture(scope="session")
def tools():
    return Tools
