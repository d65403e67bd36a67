"""The engine over real FAISS: every way to cut searches gives the one-shot answer."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from heddle.core.commands import Amend, AmendMode, Cancel, Release, Steer
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.core.results import KvHandle
from heddle.core.tasks import Priority
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.scanner import are_settled

COUNT = 2500


@pytest.fixture(scope="module", params=list(IndexKind), ids=lambda kind: kind.value)
def served(tools, request):
    """A corpus with duplicates, for each kind of index; no test changes it."""
    source = tools.Source(tools.clustered(COUNT))
    return FollowedIvf(LiveIndex.build(source, kind=request.param), source)


class TimedScanner:
    """Scans for real on a clock where every list takes one second and nothing else any time.

    Where queries share lists, one that is read takes a second, for any number of queries.
    """

    def __init__(self, clock, scanner):
        self._scanner, self._clock = scanner, clock

    def __getattr__(self, name):
        return getattr(self._scanner, name)

    def scan(self, queries, lists, distances, labels, allowed=None):
        self._scanner.scan(queries, lists, distances, labels, allowed)
        read = lists[lists >= 0]
        self._clock.time_s += len(np.unique(read) if self._scanner.shares_lists else read)


def engine_over(corpus, tools, **options):
    prior_s = {
        "call": 1e-9,
        "lists": 1.0,
        "vectors": 1e-9,
        "ridden": 1e-9,
        "scans": 1e-9,
        "rows": 1e-9,
        "stored": 1e-9,
    }
    clock = tools.Clock()
    timed = tools.ScannedBy(corpus, partial(TimedScanner, clock))
    return ivf_engine("vector", 0, timed, clock, prior_s=prior_s, **options)


def queries_of(tools, count, seed):
    vectors = tools.clustered(COUNT)
    rng = np.random.default_rng(seed)
    noise = 0.1 * rng.standard_normal((count, tools.dims), dtype=np.float32)
    # Some are stored vectors themselves: duplicates then tie at distance 0.
    picked = vectors[rng.integers(0, COUNT, count)] + noise * (rng.random((count, 1)) < 0.5)
    return np.ascontiguousarray(picked, np.float32)


def assert_one_shot(corpus, hits, queries, topk, nprobe):
    nprobe = min(nprobe or corpus.scanner.nprobe_default, len(corpus.scanner.list_sizes))
    distances, labels = corpus.scanner.search_at_once(queries, topk, nprobe)
    is_open = left_open(corpus, hits.labels, queries, topk, nprobe)
    np.testing.assert_array_equal(hits.labels[~is_open], labels[~is_open])
    np.testing.assert_array_equal(hits.distances[~is_open], distances[~is_open])
    assert (np.diff(hits.distances[is_open]) >= 0).all()
    assert hits.counts.lists_scanned == hits.counts.lists_probed == len(queries) * nprobe


def left_open(corpus, labels, queries, topk, nprobe):
    """Return for which rows equal codes leave open which hits are right; all theirs may be."""
    if corpus.scanner.heap_size(topk) == topk:
        return np.zeros(len(queries), bool)
    queries = corpus.scanner.prepared(queries)
    lists = corpus.scanner.coarse(queries, nprobe)
    coded = np.full((len(queries), COUNT), np.inf, np.float32)
    rows = np.full((len(queries), COUNT), -1, np.int64)
    corpus.scanner.scan(queries, lists, coded, rows)
    candidates = np.sort(coded, axis=1)[:, : corpus.scanner.heap_size(topk)]
    is_open = ~are_settled(candidates, topk)
    for row in np.flatnonzero(is_open):
        as_near = coded[row] <= candidates[row, -1]
        chunk_ids = rows[row, as_near] + 1  # in the order in which they were indexed
        assert len(np.unique(labels[row])) == topk
        assert np.isin(labels[row], chunk_ids).all()
    return is_open


SEARCHES = st.lists(
    st.tuples(
        st.integers(1, 9),  # rows
        st.sampled_from([1, 3, 10, 40]),  # topk
        st.none() | st.integers(1, 60),  # nprobe; the index has 39 lists
        st.sampled_from(Priority),
        st.integers(0, 6),  # the step before which it joins
        st.none() | st.integers(1, 8),  # the step before which it is cancelled
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60)
@example(  # most candidates of a row have one code: which of them are hits is open
    searches=[(1, 1, None, Priority.NORMAL, 0, None), (9, 10, None, Priority.NORMAL, 0, None)],
    budgets=[0.0, 150.0],
    slots=1,
    lists_per_step=None,
    seed=28,
)
@given(
    searches=SEARCHES,
    budgets=st.lists(st.sampled_from([0.0, 3.0, 20.0, 150.0]), min_size=1, max_size=8),
    slots=st.sampled_from([1, 7, 64]),
    lists_per_step=st.none() | st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_any_cut_gives_the_one_shot_answer(
    served, tools, searches, budgets, slots, lists_per_step, seed
):
    corpus = served
    engine = engine_over(corpus, tools, slots=slots, lists_per_step=lists_per_step)
    queries = [queries_of(tools, rows, seed + i) for i, (rows, *_) in enumerate(searches)]
    events, step = [], 0
    while engine.has_work or step <= 8:
        for i, (_, topk, nprobe, priority, joins, leaves) in enumerate(searches):
            if joins == step:
                engine.apply(tools.search(i, queries[i], topk, nprobe, priority=priority))
            if leaves == step:
                engine.apply(Cancel(i))
        events += engine.step(0.0, budgets[step % len(budgets)]).events
        assert engine.rows_in_flight <= slots
        step += 1
    ended = tools.terminals(events)
    for i, (_, topk, nprobe, _, joins, leaves) in enumerate(searches):
        if leaves is not None and leaves < joins:
            leaves = None  # cancelled before it was there: ignored
        if isinstance(ended[i], Done):
            assert_one_shot(corpus, ended[i].result, queries[i], topk, nprobe)
        else:
            assert leaves is not None
            assert isinstance(ended[i], Cancelled)
    assert engine.rows_in_flight == 0


def test_two_threads_give_the_same(tools):
    source = tools.Source(tools.clustered(COUNT))
    live = LiveIndex.build(source)
    try:
        corpus = FollowedIvf(live, source, threads=2)
        assert corpus.scanner.shares_lists
        engine = engine_over(corpus, tools)
        queries = queries_of(tools, 24, 5)
        engine.apply(tools.search(1, queries, 10, 17))
        ended = tools.terminals(tools.drain(engine, 60.0))
        assert_one_shot(corpus, ended[1].result, queries, 10, 17)
    finally:
        FollowedIvf(LiveIndex(None, 0), tools.Source(), threads=1)


@pytest.mark.parametrize("steps", range(6))
def test_cancel_at_any_step_frees_the_rows(served, tools, steps):
    corpus = served
    engine = engine_over(corpus, tools)
    queries = queries_of(tools, 6, 1)
    engine.apply(tools.search(1, queries, 5))
    engine.apply(tools.search(2, queries, 5))
    events = []
    for _ in range(steps):
        events += engine.step(0.0, 6.0).events
    assert engine.rows_in_flight == (12 if steps else 0)
    engine.apply(Cancel(1))
    engine.apply(Cancel(1))
    assert engine.rows_in_flight == (6 if steps else 0)
    ended = tools.terminals(events + tools.drain(engine, 12.0))
    assert isinstance(ended[1], Cancelled)
    assert_one_shot(corpus, ended[2].result, queries, 5, None)
    assert not engine.has_work


def test_partial_hits_come_from_the_lists_scanned_so_far(served, tools):
    corpus = served
    engine = engine_over(corpus, tools, lists_per_step=2)
    queries = queries_of(tools, 4, 3)
    engine.apply(tools.search(1, queries, 5, 12, report_every=2))
    engine.apply(Steer(budget_s=math.inf))
    reports = [e for e in tools.drain(engine) if isinstance(e, Progress)]
    assert [report.fraction for report in reports] == [4 / 12, 8 / 12]
    for report, scanned in zip(reports, (4, 8), strict=True):
        distances, labels = corpus.scanner.search_at_once(queries, 5, scanned)
        np.testing.assert_array_equal(report.labels, labels)
        np.testing.assert_array_equal(report.distances, distances)


def test_a_search_that_is_watched_tells_its_hits_at_looks_and_how_likely_they_stay(served, tools):
    corpus = served
    engine = engine_over(corpus, tools, lists_per_step=1, finality=Finality())
    queries, said, came = tools.clustered(120, seed=9), [], []
    for number, query in enumerate(queries[:, None]):
        engine.apply(tools.search(number, query, 2, 12, report_every=1))
        engine.apply(Steer(budget_s=math.inf))
        events = tools.drain(engine)
        reports = [event for event in events if isinstance(event, Progress)]
        assert [report.fraction for report in reports] == [4 / 12, 6 / 12, 8 / 12]
        final = tools.terminals(events)[number].result
        assert_one_shot(corpus, final, query, 2, 12)
        for report in reports:
            distances, labels = corpus.scanner.search_at_once(query, 2, round(12 * report.fraction))
            np.testing.assert_array_equal(report.labels, labels)
            np.testing.assert_array_equal(report.distances, distances)
        if number >= 60:
            said += [report.probability for report in reports]
            came += [np.array_equal(report.labels, final.labels) for report in reports]
    assert abs(np.mean(said) - np.mean(came)) < 0.15
    assert 0.2 < np.mean(said) < 1.0


class Watching(Finality):
    """Notes which searches it is asked about, and which of them it still watches."""

    def __init__(self):
        super().__init__()
        self.begun, self.watched = set(), set()

    def is_due(self, task_id, kind, scanned):
        self.begun.add(task_id)
        self.watched.add(task_id)
        return super().is_due(task_id, kind, scanned)

    def learn(self, task_id, labels):
        self.watched.discard(task_id)
        super().learn(task_id, labels)

    def forget(self, task_id):
        self.watched.discard(task_id)
        super().forget(task_id)


def test_searches_with_more_rows_and_those_that_nobody_watches_teach_nothing(served, tools):
    finality = Watching()
    engine = engine_over(served, tools, lists_per_step=2, finality=finality)
    engine.apply(tools.search(1, queries_of(tools, 2, 3), 5, 12, report_every=1))
    engine.apply(tools.search(2, queries_of(tools, 1, 4), 5, 12))
    events = tools.drain(engine, 2.0)
    assert {event.probability for event in events if isinstance(event, Progress)} == {0.0}
    assert not finality.begun


@pytest.mark.parametrize("ending", ["cancel", "fail"])
def test_a_watched_search_that_never_ends_is_forgotten(served, tools, monkeypatch, ending):
    finality = Watching()
    engine = engine_over(served, tools, lists_per_step=5, finality=finality)
    engine.apply(tools.search(1, queries_of(tools, 1, 3), 5, 12, report_every=1))
    engine.step(0.0, math.inf)
    assert finality.watched == {1}
    if ending == "cancel":
        engine.apply(Cancel(1))
    else:
        monkeypatch.setattr(served.scanner, "scan", None)  # a call of it fails
    assert type(tools.terminals(tools.drain(engine))[1]) is (
        Cancelled if ending == "cancel" else Failed
    )
    assert not finality.watched


def test_rows_that_wait_for_a_slot_show_as_no_hits(served, tools):
    corpus = served
    engine = engine_over(corpus, tools, slots=2, lists_per_step=1, substage_budget_s=math.inf)
    engine.apply(tools.search(1, queries_of(tools, 3, 3), 5, 4, report_every=1))
    report = engine.step(0.0, math.inf).events[0]
    assert (report.labels[:2] >= 0).all()
    assert (report.labels[2] == -1).all()
    assert np.isinf(report.distances[2]).all()
    assert report.fraction == 2 / 12


def test_more_hits_than_vectors_asked_for(served, tools):
    corpus = served
    engine = engine_over(corpus, tools, substage_budget_s=math.inf)
    engine.apply(tools.search(1, queries_of(tools, 2, 0), COUNT + 7, 10_000))
    hits = tools.terminals(tools.drain(engine))[1].result
    assert (np.sort(hits.labels[:, :COUNT]) == np.arange(1, COUNT + 1)).all()
    assert (hits.labels[:, COUNT:] == -1).all()
    assert np.isinf(hits.distances[:, COUNT:]).all()
    assert hits.counts.lists_probed == 2 * len(corpus.scanner.list_sizes)


@pytest.mark.parametrize(
    ("queries", "topk", "nprobe", "word"),
    [
        (np.ones((1, 7), np.float32), 5, None, "7 dimensions"),
        (np.ones(16, np.float32), 5, None, "queries"),
        (np.array([["a"] * 16]), 5, None, "queries"),
        (np.full((1, 16), np.nan, np.float32), 5, None, "NaN"),
        (np.ones((1, 16), np.float32), 0, None, "topk"),
        (np.ones((1, 16), np.float32), 10**9, None, "topk"),
        (np.ones((1, 16), np.float32), 5, 0, "nprobe"),
    ],
)
def test_bad_queries_are_refused_with_the_field(served, tools, queries, topk, nprobe, word):
    engine = engine_over(served, tools)
    engine.apply(tools.search(1, queries, topk, nprobe))
    good = queries_of(tools, 1, 0)
    engine.apply(tools.search(2, good, 3))
    ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1], Failed)
    assert ended[1].is_input
    assert word in ended[1].message
    assert isinstance(ended[2], Done)


def test_no_rows_are_answered_with_no_rows(served, tools):
    engine = engine_over(served, tools)
    engine.apply(tools.search(1, np.zeros((0, tools.dims), np.float32), 4))
    assert tools.terminals(tools.drain(engine))[1].result.labels.shape == (0, 4)


def test_commands_for_tasks_it_does_not_know_are_ignored(served, tools):
    engine = engine_over(served, tools)
    engine.apply(Cancel(9))
    engine.apply(Steer(task_id=9, priority=Priority.BULK))
    engine.apply(Release(KvHandle("llm", 0, 1)))
    engine.apply(Amend(9, 0, (1,), AmendMode.FILL))
    assert not engine.has_work


def test_a_higher_class_overtakes(served, tools):
    engine = engine_over(served, tools, lists_per_step=2)  # so that no search rides along
    bulk, urgent = queries_of(tools, 4, 0), queries_of(tools, 4, 1)
    engine.apply(tools.search(1, bulk, priority=Priority.BULK))
    engine.step(0.0, 10.0)
    engine.apply(tools.search(2, urgent, priority=Priority.INTERACTIVE))
    order = list(tools.terminals(tools.drain(engine, 10.0)))
    assert order == [2, 1]

    engine.apply(tools.search(3, bulk))
    engine.apply(tools.search(4, urgent))
    engine.step(0.0, 10.0)
    engine.apply(Steer(task_id=3, priority=Priority.BULK))
    assert list(tools.terminals(tools.drain(engine, 10.0))) == [4, 3]


def test_searches_that_want_the_same_lists_share_them(tools):
    source = tools.Source(tools.clustered(COUNT))
    corpus = FollowedIvf(LiveIndex.build(source), source)
    engine = engine_over(corpus, tools)
    for i in range(3):
        engine.apply(tools.search(i, queries_of(tools, 2, i), 5 + i))
    frames = [engine.step(0.0, 20.5) for _ in range(2)]
    assert not engine.has_work
    assert sum(frame.features["vectors"] for frame in frames) == 3 * COUNT  # once for each k
    assert sum(frame.features["ridden"] for frame in frames) == 3 * COUNT
    ended = tools.terminals([event for frame in frames for event in frame.events])
    for i in range(3):
        assert_one_shot(corpus, ended[i].result, queries_of(tools, 2, i), 5 + i, None)


def test_a_list_is_shared_by_those_that_want_it_only(tools):
    source = tools.Source(tools.clustered(COUNT))
    corpus = FollowedIvf(LiveIndex.build(source), source)
    engine = engine_over(corpus, tools)
    queries = queries_of(tools, 12, 1)
    for i, query in enumerate(queries):
        engine.apply(tools.search(i, query[None], 5, 1 + 3 * i))
    features = []
    events = []
    while engine.has_work:
        frame = engine.step(0.0, 7.0)
        features.append(frame.features)
        events += frame.events
    lists = corpus.scanner.coarse(queries, len(corpus.scanner.list_sizes))
    asked = sum(corpus.scanner.list_sizes[lists[i, : 1 + 3 * i]].sum() for i in range(12))
    assert sum(f["vectors"] + f["ridden"] for f in features) == asked
    assert sum(f["vectors"] for f in features) < asked / 2
    for i, ended in tools.terminals(events).items():
        assert_one_shot(corpus, ended.result, queries[i : i + 1], 5, 1 + 3 * i)


def test_frames_tell_what_was_done(served, tools):
    corpus = served
    engine = engine_over(corpus, tools, lists_per_step=3, substage_budget_s=math.inf)
    engine.apply(tools.search(1, queries_of(tools, 5, 0), 4, 7))
    frames = []
    while engine.has_work:
        frames.append(engine.step(0.0, math.inf))
    assert [frame.features["lists"] for frame in frames] == [15, 15, 5]
    assert [frame.features["rows"] for frame in frames] == [5, 0, 0]
    assert all(frame.features["vectors"] > 0 for frame in frames)
    assert [frame.load.running for frame in frames] == [5, 5, 0]
    assert [frame.has_work for frame in frames] == [True, True, False]
    assert frames[-1].costs.samples == 3
    lists = (
        corpus.scanner.coarse(corpus.scanner.prepared(queries_of(tools, 5, 0)), 7).ravel().tolist()
    )
    sizes = [corpus.scanner.list_sizes[i] for i in lists]
    assert sum(frame.features["vectors"] for frame in frames) == sum(sizes)


def test_without_a_lists_limit_a_step_fills_its_budget(served, tools):
    engine = engine_over(served, tools)
    engine.apply(tools.search(1, queries_of(tools, 5, 0)))
    scanned = []
    while engine.has_work:
        scanned.append(engine.step(0.0, 12.5).features["lists"])
    if served.scanner.shares_lists:  # five rows, 39 lists that all of them want
        assert scanned == [12.0, 12.0, 12.0, 3.0]
    else:
        assert sum(scanned) == 5 * 39
        assert len(scanned) == 17  # a rest that doesn't fit is not cut, so one step has less
    engine.apply(tools.search(2, queries_of(tools, 5, 0)))
    assert engine.step(0.0, math.inf).features["lists"] == 1  # its own budget, 2 ms
    engine.apply(Steer(budget_s=7.5))
    assert engine.step(0.0, math.inf).features["lists"] == 7


class BrokenScanner:
    """Scans like the scanner that it wraps, but fails in one of its methods."""

    def __init__(self, scanner):
        self._scanner, self.broken = scanner, ""

    def __getattr__(self, name):
        if name == self.broken:
            raise RuntimeError("the device is gone")
        return getattr(self._scanner, name)


@pytest.mark.parametrize("broken", ["prepared", "coarse", "scan", "hits"])
def test_a_scanner_error_fails_the_tasks_of_that_step_only(served, tools, broken):
    corpus = served
    flaky = BrokenScanner(corpus.scanner)
    engine = engine_over(tools.ScannedBy(corpus, lambda scanner: flaky), tools)
    queries = queries_of(tools, 3, 0)
    engine.apply(tools.search(1, queries))
    flaky.broken = broken
    ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1], Failed)
    assert "the device is gone" in ended[1].message
    assert not ended[1].is_input
    assert engine.rows_in_flight == 0
    flaky.broken = ""
    engine.apply(tools.search(2, queries))
    assert_one_shot(corpus, tools.terminals(tools.drain(engine))[2].result, queries, 5, None)


def test_predicted_step_follows_the_budget(served, tools):
    engine = engine_over(served, tools, substage_budget_s=5.0)
    assert engine.predicted_step_s() < 1.0
    engine.apply(tools.search(1, queries_of(tools, 8, 0), 5, 30))
    assert engine.predicted_step_s() == pytest.approx(5.0, rel=0.01)
    engine.apply(Steer(budget_s=math.inf))
    assert engine.predicted_step_s() == pytest.approx(240.0, rel=0.01)
