"""A small graph, and an engine over it driven to the end."""

import numpy as np
import pytest

from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.graph_searches import PRIOR_S as MEASURED_S
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker

COUNT = 1500
SLOTS = 8


class CountedWorker:
    """Searches for real on a clock where every extend takes one second and nothing else any."""

    def __init__(self, worker, clock):
        self._worker, self.clock = worker, clock
        self.orders = []

    def __getattr__(self, name):
        return getattr(self._worker, name)

    def advance(self, slots, quantum, seed_extends):
        self.orders.append(slots.tolist())
        done = self._worker.advance(slots, quantum, seed_extends)
        self.clock.time_s += done.extends
        return done


PRIOR_S = {**dict.fromkeys(MEASURED_S, 1e-9), "extends": 1.0}


class GraphTools:
    """What the tests of this folder share."""

    def __init__(self, vectors, index, tools):
        self.vectors, self.index, self.tools = vectors, index, tools
        self.labels = index.labels

    def worker(self, slots=SLOTS):
        return CountedWorker(NumbaWorker(LiveGraph(self.index), slots), self.tools.Clock())

    def engine(self, slots=SLOTS, worker=None, prior_s=PRIOR_S):
        worker = worker or self.worker(slots)
        return graph_engine("graph", 0, worker, worker.clock, prior_s=prior_s)

    def queries(self, count, seed=0):
        rng = np.random.default_rng(seed)
        noise = 0.1 * rng.standard_normal((count, self.tools.dims), dtype=np.float32)
        return self.vectors[rng.integers(0, COUNT, count)] + noise

    def alone(self, query, topk, topm):
        """Return (distances, labels) of one query in a worker of its own, in one go."""
        worker, slot = NumbaWorker(LiveGraph(self.index), 1), np.zeros(1, np.int64)
        worker.start([0], query[None], max(topm, topk))
        worker.advance(slot, 1 << 40, 0)
        distances, labels = worker.top(slot, topk)
        return distances[0], labels[0]


@pytest.fixture(scope="session")
def graph(tools):
    vectors = tools.clustered(COUNT)
    labels = 100 + np.random.default_rng(3).permutation(COUNT)
    return GraphTools(vectors, build_graph(vectors, labels), tools)
