"""Searches of a graph with a filter: k hits or all that match, and no step that others wait for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Admit, Cancel
from heddle.core.frames import Cancelled, Failed, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import EVERYBODYS, SearchScope, where_of
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.corpus import allowed
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.files import refine_store
from heddle.engines.vector.graph import graph_searches as engine_module
from heddle.engines.vector.graph import live_graph
from heddle.engines.vector.graph.corpus_graph import FollowedGraph
from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.graph.worker import NumbaWorker

COUNT, ADDED = 600, 40
SHARES = {"half": 0.5, "tenth": 0.1, "few": 0.02, "two": 2 / COUNT, "all": 1.0}


class TimedWorker:
    """Searches for real, on a clock that its work moves."""

    def __init__(self, worker, clock, extend_s):
        self._worker, self._clock, self._extend_s = worker, clock, extend_s

    def __getattr__(self, name):
        return getattr(self._worker, name)

    def advance(self, slots, quantum, seed_extends):
        done = self._worker.advance(slots, quantum, seed_extends)
        self._clock.time_s += done.extends * self._extend_s
        return done

    def compare_piece(self, query, first, distances, labels, allowed=None):
        piece = self._worker.compare_piece(query, first, distances, labels, allowed)
        self._clock.time_s += piece.compared * 6e-8
        return piece


class Corpus:
    """A corpus of which a graph was built before its last vectors came; nothing is rebuilt."""

    def __init__(self, tools):
        self.tools, self.vectors = tools, tools.clustered(COUNT + ADDED, clusters=200)
        first = self.vectors[:COUNT]
        self.source = tools.Source(first)
        self.graph = build_graph(first, np.arange(1, COUNT + 1), revision=1)
        self.source.store_vectors(range(COUNT + 1, COUNT + ADDED + 1), self.vectors[COUNT:])
        rng = np.random.default_rng(1)
        for name, share in SHARES.items():
            picked = rng.choice(COUNT + ADDED, round(share * COUNT), replace=False) + 1
            self.source.metadata["share", name] = set(picked.tolist())

    def engine(self, slots=8, extend_s=3e-6, **options):
        live, clock = LiveGraph(self.graph), self.tools.Clock()
        worker = TimedWorker(NumbaWorker(live, slots), clock, extend_s)
        followed = FollowedGraph(live, worker, self.source, Rebuild(lambda: None, clock))
        return graph_engine("graph", 1, worker, clock, followed, **options)

    def exact(self, queries, share):
        """Return the distances to what matches, as half precision has it, ascending, [n, m]."""
        rows = np.array(sorted(self.source.metadata["share", share])) - 1
        kept = self.vectors[rows].astype(np.float16).astype(np.float32)
        return np.sort(((queries[:, None] - kept[None]) ** 2).sum(-1), axis=1)


@pytest.fixture
def corpus(tools):
    return Corpus(tools)


@pytest.fixture(scope="module")
def unchanged(tools):
    """A corpus that no test changes."""
    return Corpus(tools)


@pytest.fixture
def no_few(monkeypatch):
    """Every search goes through the graph first, however few match."""
    for name in ("FEW_MIN", "FEW_MAX"):
        monkeypatch.setattr(allowed, name, -1)


@pytest.fixture
def small_steps(monkeypatch):
    """A step compares 60 vectors, in pieces of 20."""
    monkeypatch.setattr(engine_module, "FEW_MAX", 60)
    monkeypatch.setattr(refine_store, "PIECE_VECTORS", 20)


def search(task_id, queries, topk, share=None, *, every=0, topm=None):
    scope = SearchScope("", where_of({"share": share})) if share else EVERYBODYS
    payload = SearchPayload(queries, topk, topm=topm, scope=scope)
    return Admit(Task(task_id, PrimitiveKind.SEARCHING, Identity(task_id, "find"), payload), every)


@settings(max_examples=25)
@given(
    shares=st.lists(st.sampled_from([*SHARES, None]), min_size=1, max_size=4),
    topk=st.sampled_from([1, 7, 40]),
    budget_s=st.sampled_from([1e-9, 1e-4, float("inf")]),
    is_few=st.booleans(),
    cancelled=st.integers(0, 5),
)
def test_k_hits_or_all_that_match_whatever_else_is_searched(
    unchanged, tools, shares, topk, budget_s, is_few, cancelled
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "FEW_MAX", 150)
        patch.setattr(refine_store, "PIECE_VECTORS", 50)
        if not is_few:
            patch.setattr(allowed, "FEW_MAX", -1)
        engine = unchanged.engine(slots=5)
        queries = tools.clustered(3, seed=7)
        for task_id, share in enumerate(shares):
            engine.apply(search(task_id, queries, topk, share))
        events = [*engine.step(0.0, budget_s).events, *engine.step(0.0, budget_s).events]
        engine.apply(Cancel(cancelled))
        ended = tools.terminals(events + tools.drain(engine, budget_s))
    assert sorted(ended) == list(range(len(shares)))
    assert engine.rows_in_flight == 0
    for task_id, share in enumerate(shares):
        if isinstance(ended[task_id], Cancelled):
            continue
        hits = ended[task_id].result
        matching = unchanged.source.metadata["share", share or "all"]
        for labels, distances in zip(hits.labels, hits.distances, strict=True):
            found = labels[labels >= 0].tolist()
            there = len(matching) if share else COUNT + ADDED
            assert len(found) == len(set(found)) == min(topk, there)
            assert not share or set(found) <= matching
            assert (np.diff(distances[: len(found)]) >= 0).all()
        if share and is_few:
            exact = unchanged.exact(queries, share)[:, :topk]
            np.testing.assert_allclose(hits.distances[:, : exact.shape[1]], exact, rtol=1e-5)


def test_what_a_scope_lets_through_is_looked_up_once_for_each_state(corpus, tools, monkeypatch):
    asked = []
    look_up = corpus.source.allowed

    def allowed_in(scope):
        asked.append(scope)
        return look_up(scope)

    monkeypatch.setattr(corpus.source, "allowed", allowed_in)
    engine = corpus.engine()
    for task_id in range(6):
        engine.apply(search(task_id, tools.clustered(3, seed=task_id), 5, "tenth", every=1))
        tools.drain(engine, 1e-9)
    assert len(asked) == 1
    corpus.source.delete([1])
    engine.apply(search(9, tools.clustered(1), 5, "tenth"))
    tools.drain(engine)
    assert len(asked) == 2


@pytest.mark.parametrize("share", ["tenth", "two"])
def test_comparing_is_bounded_in_a_step_and_others_end_meanwhile(
    corpus, tools, no_few, small_steps, share
):
    engine = corpus.engine()
    queries = tools.clustered(2, seed=3)
    engine.apply(search(1, queries, 60, share))
    frames = [engine.step(0.0, 1.0)]
    engine.apply(search(2, queries, 3))
    while engine.has_work:
        frames.append(engine.step(0.0, 1.0))
    assert max(frame.features["compared"] for frame in frames) < 60 + 20 + 20  # passed over
    ended = [event.task_id for frame in frames for event in frame.events]
    if share == "tenth":  # 120 vectors, and what was added: more than a step
        assert ended == [2, 1]
    hits = tools.terminals([event for frame in frames for event in frame.events])[1].result
    exact = corpus.exact(queries, share)
    np.testing.assert_allclose(hits.distances[:, : exact.shape[1]], exact[:, :60], rtol=1e-5)


def test_the_few_that_match_are_compared_without_a_way_through_the_graph(corpus, tools):
    engine = corpus.engine()
    queries = tools.clustered(5, seed=3)
    engine.apply(search(1, queries, 5, "few"))
    frame = engine.step(0.0, 1.0)
    hits = tools.terminals(frame.events)[1].result
    assert hits.counts.nodes_opened == 0
    assert frame.features["extends"] == 0
    np.testing.assert_allclose(hits.distances, corpus.exact(queries, "few")[:, :5], rtol=1e-5)


def test_partial_hits_are_of_the_scope_and_compare_nothing(corpus, tools, no_few):
    engine = corpus.engine(extend_s=1.0, prior_s={**engine_module.PRIOR_S, "extends": 1.0})
    engine.apply(search(1, tools.clustered(1, seed=3), 30, "half", every=1, topm=64))
    partial, compared = [], []
    while not any(compared):
        frame = engine.step(0.0, 4.0)
        compared.append(frame.features["compared"])
        partial += [event for event in frame.events if isinstance(event, Progress)]
    assert len(partial) > 2
    matching = corpus.source.metadata["share", "half"]
    for event in partial:
        assert set(event.labels[event.labels >= 0].tolist()) <= matching
    fractions = [event.fraction for event in partial]
    assert fractions == sorted(fractions)


def test_the_corpus_waits_for_what_is_compared_piece_by_piece(corpus, tools, small_steps):
    engine = corpus.engine()
    engine.apply(search(1, tools.clustered(1, seed=3), COUNT, "all"))
    while not engine.step(0.0, 1.0).features["compared"]:
        pass
    changed = list(range(1, COUNT + 1))
    corpus.source.delete(changed[:100])
    corpus.source.store_vectors(changed[:50], corpus.vectors[:50])
    corpus.source.metadata["share", "all"] -= set(range(51, 101))
    engine.apply(search(2, tools.clustered(1, seed=3), COUNT, "all"))
    ended = tools.terminals(tools.drain(engine, 1.0))
    for task_id, there in ((1, COUNT), (2, len(corpus.source.metadata["share", "all"]))):
        found = ended[task_id].result.labels[0]
        found = found[found >= 0].tolist()
        assert len(found) == len(set(found)) == min(there, COUNT)
    assert ended[2].result.revision == corpus.source.revision


def test_a_search_without_a_filter_finds_nothing_of_a_tenant_that_comes_piece_by_piece(
    corpus, tools, monkeypatch
):
    monkeypatch.setattr(live_graph, "PIECE_ROWS", 10)
    engine = corpus.engine()
    tools.drain(engine)
    near = corpus.vectors[:1]
    engine.apply(search(0, near, 5))
    tools.drain(engine)
    engine.apply(search(1, near, 30))
    engine.step(0.0, 1e-9)
    assert engine.rows_in_flight == 1
    first = COUNT + ADDED + 1
    corpus.source.tenants.update(dict.fromkeys(range(first, first + 100), "other"))
    corpus.source.store_vectors(range(first, first + 100), np.repeat(near, 100, axis=0))
    engine.apply(search(2, near, 30))
    engine.step(0.0, 1e-9)  # ten of them are in
    ended = tools.terminals(tools.drain(engine))
    for task_id in (1, 2):
        labels = ended[task_id].result.labels
        assert ((labels >= 1) & (labels < first)).all()


def test_what_breaks_while_one_is_compared_fails_that_alone(corpus, tools, monkeypatch):
    engine = corpus.engine()
    compare = NumbaWorker.compare_piece

    def refuse(worker, query, first, distances, labels, allowed=None):
        if allowed is not None:
            raise RuntimeError("lost the disk")
        return compare(worker, query, first, distances, labels, allowed)

    monkeypatch.setattr(NumbaWorker, "compare_piece", refuse)
    engine.apply(search(1, tools.clustered(3), 5, "few"))
    engine.apply(search(2, tools.clustered(3), 5))
    ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1], Failed)
    assert "comparing vectors one by one failed: lost the disk" in ended[1].message
    assert (ended[2].result.labels >= 1).all()
    assert engine.rows_in_flight == 0


def test_a_filter_that_nothing_matches_is_refused(corpus, tools):
    engine = corpus.engine()
    engine.apply(search(1, tools.clustered(1), 5, "none"))
    ended = tools.terminals(tools.drain(engine))
    assert ended[1].is_input
    assert "where: no passage has" in ended[1].message
