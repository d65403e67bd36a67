"""A graph with words: they are looked for beside the steps, and belong to the answer."""

import threading

import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Failed
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.graph.corpus_graph import FollowedGraph, build_live, read_live
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.worker import NumbaWorker

WAIT_S = 30


class Lane:
    """A graph engine whose corpus holds searches by words back until `may_go_on` is set."""

    def __init__(self, tools, directory, count=300):
        self.tools, self.source = tools, tools.Source(tools.clustered(count))
        self.find, self.source.by_words = self.source.by_words, self.by_words
        self.may_go_on, self.ended = threading.Event(), threading.Event()
        build = lambda: build_live(directory, self.source, lambda *_: None)  # noqa: E731
        build()
        live = read_live(directory, self.source)
        worker = NumbaWorker(live, 8)
        rebuild = Rebuild(build, tools.Clock())
        corpus = FollowedGraph(live, worker, self.source, rebuild)
        self.engine = graph_engine("graph", 0, worker, tools.Clock(), corpus)
        self.engine.subscribe(self.ended.set)

    def by_words(self, text, limit, scope, is_cancelled):
        while not self.may_go_on.wait(1e-3):
            if is_cancelled():
                raise RuntimeError("interrupted")
        return self.find(text, limit, scope, is_cancelled)

    def search(self, task_id, *words, topk=3):
        queries = self.tools.clustered(len(words) or 1, seed=task_id)
        payload = SearchPayload(queries, topk, words=words or None)
        identity = Identity(task_id, "find")
        self.engine.apply(Admit(Task(task_id, PrimitiveKind.SEARCHING, identity, payload), 0))

    def ends(self):
        return self.tools.terminals(self.tools.drain(self.engine))


@pytest.fixture
def lane(tools, tmp_path):
    lane = Lane(tools, tmp_path)
    yield lane
    lane.engine.close()


def test_other_searches_end_while_words_are_looked_for(lane):
    lane.search(1, "7 3")
    lane.search(2)
    ends = lane.ends()
    assert list(ends) == [2]
    assert ends[2].result.by_words is None
    lane.may_go_on.set()
    assert lane.ended.wait(WAIT_S)
    assert lane.engine.has_work
    result = lane.ends()[1].result
    assert result.by_words.labels.tolist() == [[7, 3, -1]]
    assert (result.labels >= 1).all()


def test_words_that_are_found_first_wait_for_the_graph(lane):
    lane.may_go_on.set()
    lane.search(1, "7")
    first = lane.engine.step(0.0, 0.0).events  # an extend or so
    assert first == ()
    assert lane.ended.wait(WAIT_S)
    assert lane.ends()[1].result.by_words.labels.tolist() == [[7, -1, -1]]


def test_a_cancelled_search_is_stopped(lane):
    lane.search(1, "1")
    assert lane.ends() == {}
    lane.engine.apply(Cancel(1))
    assert lane.ends() == {1: Cancelled(1)}
    lane.may_go_on.set()
    lane.search(2, "2")
    found = lane.ends()
    assert lane.ended.wait(WAIT_S)
    assert list({**found, **lane.ends()}) == [2]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_failure_is_one_tasks(lane, is_over):
    lane.search(1, "no number")
    if is_over:
        assert lane.ends() == {}
    else:
        lane.engine.step(0.0, 0.0)
    lane.may_go_on.set()
    assert lane.ended.wait(WAIT_S)
    failed = lane.ends()[1]
    assert isinstance(failed, Failed)
    assert "the search by words failed: invalid literal" in failed.message
    assert lane.engine.rows_in_flight == 0
