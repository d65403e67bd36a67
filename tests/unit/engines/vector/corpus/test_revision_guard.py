"""A corpus that is restored to an earlier state under a running index."""

import pytest

from heddle.core.frames import Done
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.graph.corpus_graph import FollowedGraph
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex


@pytest.fixture
def source(tools):
    return tools.Source(tools.clustered(100))


@pytest.fixture(params=["lists", "graph"])
def engine(request, tools, source):
    clock = tools.Clock()
    if request.param == "lists":
        return ivf_engine("vector", 0, FollowedIvf(LiveIndex.build(source), source), clock)
    live = LiveGraph(None)
    live.follow(source)
    worker = NumbaWorker(live, 8)
    corpus = FollowedGraph(live, worker, source, Rebuild(lambda: live, clock))
    return graph_engine("graph", 1, worker, clock, corpus)


def test_chunks_that_come_with_the_same_numbers_are_not_taken_for_those_of_before(
    engine, source, tools
):
    before, after = tools.clustered(8, seed=5), tools.clustered(8, seed=6)

    def ask(task_id):
        engine.apply(tools.search(task_id, before[:1], 1))
        return tools.terminals(tools.drain(engine))[task_id]

    source.store_vectors(range(101, 109), before)
    assert ask(1).result.labels.tolist() == [[101]]
    source.revision, source.rows = 1, {i: row for i, row in source.rows.items() if i <= 100}
    reason = "the corpus went back from revision 2 to 1, as after a restore; start the server again"
    assert reason in ask(2).message
    assert reason in engine.step(0.0, 1.0).notes
    source.store_vectors(range(101, 109), after)
    source.store_vectors([109], after[:1])
    assert source.revision == 3
    end = ask(3)
    assert not isinstance(end, Done)
    assert reason in end.message


def test_what_was_followed_before_an_answer_came_is_no_corpus_that_went_back(tools):
    class Database(tools.Source):
        def ask_revision(self):
            revision = self.revision
            return lambda: revision

    source = Database(tools.clustered(100))
    corpus = FollowedIvf(LiveIndex.build(source), source)
    assert corpus.ask_newest()
    source.store_vectors([101], tools.clustered(1, seed=5))
    assert corpus.newest_revision() == 2  # as where another process's notice came meanwhile
    corpus.follow(in_flight=False)
    assert corpus.revision == 2
    assert corpus.asked_newest() == 1
    assert corpus.problems == ()
