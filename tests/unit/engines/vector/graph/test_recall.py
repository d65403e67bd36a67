"""A graph's recall is sampled and reported, and `topm` sets how many neighbours are found."""

import numpy as np
import pytest

from heddle.core.commands import Admit
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.graph.graph_searches import NPROBE_UNUSED, graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker
from heddle.engines.vector.recall.self_check import OPEN_MAX, SelfCheck


def checked(graph, index=None, topm=8):
    """An engine that runs every search again, as far as there is room."""
    worker = NumbaWorker(LiveGraph(graph.index) if index is None else index, 8)
    check = SelfCheck(worker, share=1.0)
    return graph_engine("graph", 0, worker, graph.tools.Clock(), topm=topm, check=check)


def search(task_id, queries, topk=5, **options):
    payload = SearchPayload(queries, topk, **options)
    return Admit(Task(task_id, PrimitiveKind.SEARCHING, Identity(task_id, "find"), payload), 0)


def exact_recall(graph, queries, found):
    """The share of the exact hits as near as those that were found."""
    kept = graph.index.vectors.astype(np.float32)
    distances = np.sort(((queries[:, None] - kept[None]) ** 2).sum(-1), axis=1)
    last = distances[:, found.shape[1] - 1 : found.shape[1]]
    return float((found <= last * (1 + 1e-5)).mean())


@pytest.mark.parametrize("topm", [5, 200])
def test_searches_are_run_again_exactly_when_nobody_waits(graph, topm):
    engine = checked(graph)
    queries = graph.queries(OPEN_MAX, seed=1)
    engine.apply(search(1, queries, topm=topm))
    frame = engine.step(0.0, 1e9)
    while not frame.events:
        assert frame.recall is None
        frame = engine.step(0.0, 1e9)
    [done] = frame.events
    assert engine.has_work  # no search is left, but samples are
    while engine.has_work:
        frame = engine.step(0.0, 1e9)
    assert frame.recall.checks == OPEN_MAX
    assert frame.recall.recall == pytest.approx(
        exact_recall(graph, queries, done.result.distances), abs=1e-6
    )
    assert (frame.recall.recall == 1) == (topm == 200)
    engine.apply(search(2, queries[:1]))
    hits = graph.tools.terminals(graph.tools.drain(engine))[2].result
    assert hits.recall == frame.recall


def test_a_sample_is_given_up_when_the_graph_follows_the_corpus(graph, tools, tmp_path):
    from heddle.engines.vector.corpus.rebuild import Rebuild
    from heddle.engines.vector.graph.corpus_graph import FollowedGraph, build_live

    source = tools.Source(tools.clustered(300))
    live = build_live(tmp_path, source, lambda *_: None)
    worker = NumbaWorker(live, 8)
    check = SelfCheck(worker, share=1.0)
    corpus = FollowedGraph(live, worker, source, Rebuild(lambda: live, tools.Clock()))
    engine = graph_engine("graph", 0, worker, tools.Clock(), corpus, check=check)
    engine.apply(search(1, tools.clustered(3, seed=5)))
    while not engine.step(0.0, 1.0).events:
        pass
    assert not engine.step(0.0, 1.0).events  # the answer went out first
    assert check.has_work
    source.store_vectors([301], tools.clustered(1, seed=6))
    engine.apply(search(2, tools.clustered(2, seed=7)))
    tools.drain(engine)
    assert engine.step(0.0, 1.0).recall.checks == 3  # the first's one that had begun, and two
    assert not check.has_work


def test_topm_is_the_engines_where_a_search_has_none(graph):
    few, many = checked(graph), checked(graph, topm=128)
    queries = graph.queries(4)
    ended = []
    for engine, options in ((few, {}), (many, {}), (few, {"topm": 128})):
        engine.apply(search(1, queries, **options))
        ended.append(graph.tools.terminals(graph.tools.drain(engine))[1].result)
    opened = [hits.counts.nodes_opened for hits in ended]
    assert opened[0] < opened[1] == opened[2]


def test_an_nprobe_is_told_to_be_unused(graph):
    engine = checked(graph)
    engine.apply(search(1, graph.queries(1), nprobe=4))
    engine.apply(search(2, graph.queries(1)))
    ended = graph.tools.terminals(graph.tools.drain(engine))
    assert ended[1].result.notes == (NPROBE_UNUSED,)
    assert ended[2].result.notes == ()
