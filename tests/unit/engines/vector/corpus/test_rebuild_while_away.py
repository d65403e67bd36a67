"""A corpus that goes away while another index of it is to be made, or waits to be served."""

import pytest

from heddle.core.errors import StorageError
from heddle.core.frames import Done
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


@pytest.fixture
def clock(tools):
    return tools.Clock()


@pytest.fixture
def source(tools):
    """A corpus that answers nothing while it `is_away`."""

    class Database(tools.DistantSource):
        @property
        def embedder(self):
            return self.look() or "fake/16"

    return Database(tools.clustered(100))


@pytest.fixture(params=["made", "refused"])
def make(request):
    """Returns what makes another index; the disk may refuse."""

    def make(index):
        if request.param == "refused":
            raise StorageError("no memory")
        return index()

    return make


@pytest.fixture(params=["lists", "graph"])
def served(request, tools, clock, source, make, monkeypatch):
    """An engine whose index is outgrown by any change, and its rebuild."""
    staleness = Staleness(600.0, clock)
    if request.param == "lists":
        monkeypatch.setattr(live_index, "TAIL_MIN", 1)
        monkeypatch.setattr(live_index, "TAIL_SHARE", 0.0)
        rebuild = Rebuild(lambda: make(lambda: LiveIndex.build(source)), clock)
        corpus = FollowedIvf(LiveIndex.build(source), source, None, 1, rebuild, None, staleness)
        return ivf_engine("vector", 0, corpus, clock), rebuild
    monkeypatch.setattr(live_graph, "CHANGED_MIN", 1)
    live = LiveGraph(None)
    live.follow(source)
    worker = NumbaWorker(live, 8)
    rebuild = Rebuild(lambda: make(lambda: LiveGraph(None)), clock)
    corpus = FollowedGraph(live, worker, source, rebuild, staleness)
    return graph_engine("graph", 1, worker, clock, corpus), rebuild


def test_searches_go_on_with_the_index_that_there_is(served, source, clock, tools):
    engine, rebuild = served

    def ask(task_id):
        engine.apply(tools.search(task_id, tools.clustered(2), 3))
        end = tools.terminals(tools.drain(engine))[task_id]
        assert isinstance(end, Done), end
        return end.result

    source.store_vectors(range(101, 104), tools.clustered(3, seed=7))
    assert ask(1).revision == 2
    rebuild.wait()
    source.is_away, clock.time_s = True, 30.0
    assert rebuild.is_ready or rebuild.is_due
    for task_id in (4, 5):
        notes = ask(task_id).notes
        assert any("as the corpus was" in note for note in notes)
    source.is_away = False
    assert not any("as the corpus was" in note for note in ask(6).notes)
    rebuild.wait()
    assert not rebuild.is_due
