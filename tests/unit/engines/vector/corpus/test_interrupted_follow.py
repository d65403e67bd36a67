"""A corpus that goes away while its index is half-way through what another tenant has written."""

import numpy as np
import pytest

from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.search_scope import SearchScope
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.graph import live_graph
from heddle.engines.vector.graph.corpus_graph import FollowedGraph
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.ivf import live_index
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex

PIECE = 10


@pytest.fixture
def source(tools):
    """A corpus that goes away behind the first piece that is read of `interrupted`."""

    class Database(tools.DistantSource):
        interrupted = False

        def deleted(self, after_revision):
            self.look()
            return super().deleted(after_revision)

        def vectors(self, after_revision=0, batch_rows=100, **part):
            for batch in super().vectors(after_revision, batch_rows, **part):
                yield batch
                self.is_away = self.interrupted
                self.look()

    return Database(tools.clustered(100))


@pytest.fixture(params=["lists", "graph"])
def engine(request, tools, source, monkeypatch):
    monkeypatch.setattr(live_index, "PIECE_ROWS", PIECE)
    monkeypatch.setattr(live_graph, "PIECE_ROWS", PIECE)
    staleness = Staleness(600.0, tools.Clock())
    if request.param == "lists":
        corpus = FollowedIvf(LiveIndex.build(source), source, staleness=staleness)
        return ivf_engine("vector", 0, corpus, tools.Clock())
    live = LiveGraph(None, 0)
    worker = NumbaWorker(live, 8)
    rebuild = Rebuild(lambda: live, tools.Clock())
    corpus = FollowedGraph(live, worker, source, rebuild, staleness)
    return graph_engine("graph", 1, worker, tools.Clock(), corpus)


def test_searches_meanwhile_find_nothing_of_that_tenant(engine, source, tools):
    queries = -tools.clustered(4, seed=7)
    engine.apply(tools.search(1, queries, 5))
    assert isinstance(tools.terminals(tools.drain(engine))[1], Done)
    source.tenants = dict.fromkeys(range(101, 131), "ann")
    source.store_vectors(range(101, 131), np.tile(queries[:1], (30, 1)))
    source.interrupted = True
    for task_id in (2, 3):
        engine.apply(tools.search(task_id, queries, 5))
        end = tools.terminals(tools.drain(engine))[task_id]
        assert not isinstance(end, Done) or (end.result.labels <= 100).all()
    source.is_away = source.interrupted = False
    engine.apply(tools.search(4, queries, 5))
    admit = tools.search(5, queries)
    payload = SearchPayload(queries, 5, scope=SearchScope("ann"))
    engine.apply(admit._replace(task=admit.task._replace(payload=payload)))
    ended = tools.terminals(tools.drain(engine))
    assert (ended[4].result.labels <= 100).all()
    assert (ended[5].result.labels[0] > 100).all()
