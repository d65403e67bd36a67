"""Searches with a filter: k hits or all that match, and never another."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.commands import Admit
from heddle.core.frames import Done, Failed, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.search_scope import SearchScope, where_of
from heddle.core.tasks import Identity, Task
from heddle.engines.vector.corpus import allowed as allowed_module
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.early_stop.finality import SEEN_MIN, Finality
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex

COUNT = 2500
SHARES = {"half": 0.5, "tenth": 0.1, "few": 0.01, "two": 2 / COUNT, "all": 1.0}
KINDS = [IndexKind.FLAT, IndexKind.PQ, IndexKind.PANORAMA]


def corpus(tools):
    source = tools.Source(tools.clustered(COUNT))
    rng = np.random.default_rng(1)
    for name, share in SHARES.items():
        picked = rng.choice(COUNT, round(share * COUNT), replace=False) + 1
        source.metadata["share", name] = set(picked.tolist())
    return source


@pytest.fixture(scope="module")
def source(tools):
    """A corpus whose chunks have metadata; no test that takes this one changes it."""
    return corpus(tools)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.value)
def served(source, request):
    return FollowedIvf(LiveIndex.build(source, kind=request.param), source)


@pytest.fixture
def scanned(served, source, monkeypatch):
    """The same index, whose lists are scanned however few match."""
    for name in ("FEW_MIN", "FEW_MAX"):
        monkeypatch.setattr(allowed_module, name, -1)
    return FollowedIvf(served.live, source)


def search(task_id, queries, topk, share=None, nprobe=None, words=None, **where):
    scope = SearchScope("", where_of({"share": share} if share else where))
    payload = SearchPayload(queries, topk, nprobe, scope=scope, words=words)
    task = Task(task_id, PrimitiveKind.SEARCHING, Identity(task_id, "search"), payload)
    return Admit(task, 0)


def matching(source, share):
    return np.array(sorted(source.metadata["share", share]))


def nearest(source, queries, ids):
    """Exact distances to some chunks, ascending, [n, m]."""
    vectors = np.stack([source.rows[i][1] for i in ids.tolist()])
    return np.sort(((queries[:, None] - vectors[None]) ** 2).sum(-1), axis=1)


def check_filled(hits, source, share, topk):
    """As many hits as there can be, each once, of what matches and of nothing else."""
    ids = matching(source, share)
    for labels, distances in zip(hits.labels, hits.distances, strict=True):
        found = labels[labels >= 0]
        assert len(found) == len(set(found.tolist())) == min(topk, len(ids))
        assert np.isin(found, ids).all()
        assert np.isfinite(distances[: len(found)]).all()
        assert (np.diff(distances[: len(found)]) >= 0).all()


@settings(max_examples=25)
@given(
    shares=st.lists(st.sampled_from([*SHARES, None]), min_size=1, max_size=4),
    topk=st.sampled_from([1, 7, 40]),
    nprobe=st.sampled_from([None, 1, 5]),
    budget_s=st.sampled_from([1e-9, 1e-4, float("inf")]),
)
def test_k_hits_or_all_that_match_whatever_else_is_searched(
    served, source, tools, shares, topk, nprobe, budget_s
):
    engine = ivf_engine("vector", 0, served, tools.Clock(), slots=5)
    queries = tools.clustered(3, seed=7)
    for task_id, share in enumerate(shares):
        engine.apply(search(task_id, queries, topk, share, nprobe))
    ended = tools.terminals(tools.drain(engine, budget_s))
    for task_id, share in enumerate(shares):
        if share is not None:
            check_filled(ended[task_id].result, source, share, topk)


def test_what_filtered_searches_teach_says_nothing_of_others(scanned, tools):
    engine = ivf_engine("vector", 0, scanned, tools.Clock(), lists_per_step=1, finality=Finality())
    said = {"half": [], None: []}
    for number, query in enumerate(tools.clustered(2 * SEEN_MIN, seed=9)):
        for share in ("half", None) if number >= SEEN_MIN else ("half",):
            admit = search(2 * number + (share is None), query[None], 2, share, nprobe=12)
            engine.apply(admit._replace(report_every=1))
            told = (e for e in tools.drain(engine) if isinstance(e, Progress))
            said[share] += [event.probability for event in told]
    assert max(said["half"]) > 0
    assert max(said[None]) == 0, "of these fewer have been seen"


@pytest.mark.parametrize("share", ["half", "tenth", "few"])
def test_every_list_is_scanned_for_what_matches(scanned, source, tools, share):
    engine = ivf_engine("vector", 0, scanned, tools.Clock())
    queries = tools.clustered(20, seed=3)
    topk = len(matching(source, share)) // 2 if share == "few" else 10
    engine.apply(search(1, queries, topk, share, nprobe=len(scanned.scanner.list_sizes)))
    hits = tools.terminals(tools.drain(engine))[1].result
    exact = nearest(source, queries, matching(source, share))[:, :topk]
    if scanned.scanner.heap_size(topk) == topk:
        np.testing.assert_allclose(hits.distances, exact, rtol=1e-4, atol=1e-5)
    else:  # what codes say to be near isn't always
        assert (np.abs(hits.distances[:, 0] - exact[:, 0]) < 1e-2).mean() >= 0.9


def test_a_search_of_few_lists_goes_on_until_it_has_enough(scanned, source, tools):
    engine = ivf_engine("vector", 0, scanned, tools.Clock())
    engine.apply(search(1, tools.clustered(4, seed=3), 20, "few", nprobe=1))
    engine.apply(search(2, tools.clustered(4, seed=3), 20, nprobe=1))
    ended = tools.terminals(tools.drain(engine, 1e-9))
    check_filled(ended[1].result, source, "few", 20)
    assert ended[1].result.counts.lists_probed > 4
    assert ended[2].result.counts.lists_probed == 4


def test_the_few_that_match_are_compared_one_by_one(tools):
    source = corpus(tools)
    served = FollowedIvf(LiveIndex.build(source, kind=IndexKind.PQ), source)
    engine = ivf_engine("vector", 0, served, tools.Clock())
    queries = tools.clustered(20, seed=3)
    engine.apply(search(1, queries, 10, "few"))
    frame = engine.step(0.0, 1e-9)
    hits = tools.terminals(frame.events)[1].result
    assert (hits.counts.lists_probed, frame.features["compared"]) == (0, 20 * 25)
    exact = nearest(source, queries, matching(source, "few"))[:, :10]
    np.testing.assert_allclose(hits.distances, exact, rtol=1e-2, atol=1e-3)  # in float16


def test_comparing_is_bounded_in_a_step(tools, monkeypatch):
    monkeypatch.setattr("heddle.engines.vector.ivf.ivf_searches.FEW_MAX", 60)
    source = corpus(tools)
    served = FollowedIvf(LiveIndex.build(source, kind=IndexKind.PQ), source)
    engine = ivf_engine("vector", 0, served, tools.Clock())
    queries = tools.clustered(5, seed=3)
    engine.apply(search(1, queries, 3, "few"))
    engine.apply(search(2, queries, 3, "few"))
    frames = []
    while engine.has_work:
        frames.append(engine.step(0.0, 1.0))
    assert [frame.features["compared"] for frame in frames] == [50] * 5
    ended = tools.terminals([event for frame in frames for event in frame.events])
    check_filled(ended[1].result, source, "few", 3)
    np.testing.assert_array_equal(ended[1].result.labels, ended[2].result.labels)


def test_a_filter_that_nothing_matches_is_refused(served, tools):
    engine = ivf_engine("vector", 0, served, tools.Clock())
    engine.apply(search(1, tools.clustered(2), 3, lang=["en", "de"]))
    engine.apply(search(2, tools.clustered(2), 3))
    ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1], Failed)
    assert ended[1].is_input
    assert ended[1].message == "where: no passage has lang=de or en"
    assert isinstance(ended[2], Done)


def test_nothing_allowed_is_not_everything_to_a_scan(served, tools):
    none = allowed_module.Allowed.of(np.zeros(0, np.int64), is_few=False)
    queries = served.scanner.prepared(tools.clustered(2))
    distances, labels = np.full((2, 5), np.inf, np.float32), np.full((2, 5), -1, np.int64)
    served.scanner.scan(queries, served.scanner.coarse(queries, 3), distances, labels, none)
    assert (labels == -1).all()


def test_a_filter_that_can_not_be_looked_up_fails_its_search_alone(tools):
    source = corpus(tools)
    engine = ivf_engine("vector", 0, FollowedIvf(LiveIndex.build(source), source), tools.Clock())

    def refuse(scope):
        raise OSError("the disk failed")

    source.allowed = refuse
    engine.apply(search(1, tools.clustered(2), 3, "half"))
    failed = tools.terminals(tools.drain(engine))[1]
    assert isinstance(failed, Failed)
    assert "the disk failed" in failed.message


def test_a_filter_follows_the_corpus(tools):
    source = corpus(tools)
    engine = ivf_engine(
        "vector", 0, FollowedIvf(LiveIndex.build(source, kind=IndexKind.PQ), source), tools.Clock()
    )
    queries = tools.clustered(2, seed=3)
    engine.apply(search(1, queries, 5, "two"))
    tools.drain(engine)
    source.store_vectors([COUNT + 1], queries[:1])
    source.metadata["share", "two"].add(COUNT + 1)
    source.delete([min(source.metadata["share", "two"])])
    engine.apply(search(2, queries, 5, "two"))
    hits = tools.terminals(tools.drain(engine))[2].result
    assert hits.labels[0, 0] == COUNT + 1
    left = source.metadata["share", "two"] & set(source.rows)
    assert set(hits.labels[0].tolist()) == left | {-1}


def test_what_is_found_by_words_comes_besides(served, source, tools):
    engine = ivf_engine("vector", 0, served, tools.Clock())
    few = matching(source, "few").tolist()
    other = next(i for i in source.rows if i not in few)
    queries = np.stack([source.rows[few[0]][1], source.rows[few[1]][1]])
    texts = (f"{few[1]} {other} {few[0]}", "")
    ended = threading.Event()
    engine.subscribe(ended.set)
    engine.apply(search(1, queries, 4, "few", words=texts))
    events = tools.drain(engine)
    assert ended.wait(30)
    hits = tools.terminals(events + tools.drain(engine))[1].result
    check_filled(hits, source, "few", 4)
    assert hits.by_words.labels.tolist() == [[few[1], few[0], -1, -1], [-1] * 4]
    assert hits.by_words.distances[0, 1] == 0
    assert hits.by_words.distances[0, 0] > 0
    assert np.isinf(hits.by_words.distances[1]).all()
