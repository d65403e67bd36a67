"""Searches that the corpus's database carries out, over one that answers when a test lets it."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from heddle.core.commands import Admit, Cancel
from heddle.core.errors import ConfigError, InputError, Unreachable
from heddle.core.frames import Cancelled, Done, Failed
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Priority
from heddle.corpus.vector_index import DatabaseHits, SearchEffort, VectorIndexKind
from heddle.engines.vector.database.database_searches import PRIOR_S, DatabaseSearches
from heddle.engines.vector.database.searched_database import SEARCHES_MAX, SearchedDatabase
from heddle.engines.vector.engine import SearchEngine

WAIT_S = 30
RED = SearchScope("ann", (("colour", ("red",)),))


class HeldIndex:
    """A VectorIndex whose searches wait, and find what a query's first number says."""

    def __init__(self, source):
        self.source, self.searched = source, []
        self.may_end, self.begun = threading.Event(), threading.Semaphore(0)
        self.error, self.hits_nothing = None, False

    def vectors_estimated(self):
        return 300

    def search(self, queries, topk, scope, effort):
        self.searched.append((float(queries[0, 0]), scope, effort))
        self.begun.release()
        assert self.may_end.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        labels = np.full((len(queries), topk), -1, np.int64)
        distances = np.full(labels.shape, np.inf, np.float32)
        if not self.hits_nothing:
            labels[:, 0], distances[:, 0] = queries[:, 0], 0.5
        return DatabaseHits(labels, distances, self.source.revision, "an index of the test")


class Lane:
    """An engine over a held index."""

    def __init__(self, tools):
        self.tools = tools
        self.source = tools.Source(tools.clustered(300))
        self.source.has_any = lambda scope: scope != RED
        self.index, self.ended = HeldIndex(self.source), threading.Semaphore(0)
        database = SearchedDatabase(self.source, self.index, SearchEffort(candidates=7))
        kind = VectorIndexKind.HNSW
        self.engine = SearchEngine(
            "vector",
            0,
            tools.Clock(),
            lambda tasks: DatabaseSearches(tasks, database, kind),
            database,
            substage_budget_s=1.0,
            prior_s=PRIOR_S,
        )
        self.engine.subscribe(self.ended.release)

    def search(self, task_id, scope=None, **how):
        queries = np.full((2, self.tools.dims), task_id, np.float32)
        admit = self.tools.search(task_id, queries, 3, **how)
        if scope is None:
            return admit
        payload = replace(admit.task.payload, scope=scope)
        return Admit(admit.task._replace(payload=payload), 0)

    def begin(self, *searches):
        """Admit searches, and have the database begin those that it can."""
        for search in searches:
            self.engine.apply(search)
        return self.tools.drain(self.engine)

    def end(self, count=1):
        """Let the database answer, and return how tasks ended."""
        self.index.may_end.set()
        for _ in range(count):
            assert self.ended.acquire(timeout=WAIT_S)
        return self.tools.terminals(self.tools.drain(self.engine))


@pytest.fixture
def lane(tools):
    lane = Lane(tools)
    yield lane
    lane.index.may_end.set()
    lane.engine.close()


def test_a_search_needs_no_step_while_the_database_looks(lane):
    assert lane.begin(lane.search(5, nprobe=3)) == []
    assert lane.engine.rows_in_flight == 2
    lane.source.store_vectors([900], lane.tools.clustered(1))  # by another process, meanwhile
    hits = lane.end()[5].result
    assert hits.labels.tolist() == [[5, -1, -1]] * 2
    assert hits.searched_by == "an index of the test"
    assert hits.revision == lane.source.revision == lane.engine.method.revision
    assert "nprobe" in " ".join(hits.notes)
    [(_, _, effort)] = lane.index.searched
    assert effort == SearchEffort(candidates=7, lists=3)
    assert lane.engine.rows_in_flight == 0


def test_the_most_urgent_of_those_that_wait_begins_next(lane):
    searches = [lane.search(n) for n in range(1, SEARCHES_MAX + 2)]
    lane.begin(*searches)
    for _ in range(SEARCHES_MAX):
        assert lane.index.begun.acquire(timeout=WAIT_S)
    lane.begin(lane.search(99, priority=Priority.INTERACTIVE))
    ends = {}
    while len(ends) < SEARCHES_MAX + 2:
        ends |= lane.end()
    assert {type(end) for end in ends.values()} == {Done}
    assert sorted(n for n, _, _ in lane.index.searched[:SEARCHES_MAX]) == [1, 2, 3, 4]
    assert {n for n, _, _ in lane.index.searched[SEARCHES_MAX:]} == {SEARCHES_MAX + 1, 99}
    assert lane.index.searched[SEARCHES_MAX][0] == 99


def test_a_cancelled_search_ends_at_once_and_its_hits_are_dropped(lane):
    lane.begin(lane.search(1), lane.search(2))
    [event] = lane.begin(Cancel(1))
    assert event == Cancelled(1)
    assert list(lane.end()) == [2]
    assert not lane.engine.has_work


@pytest.mark.parametrize(
    ("error", "is_away", "is_input"),
    [
        (Unreachable("gone"), True, False),
        (InputError("no"), False, True),
        (OSError("x"), False, False),
    ],
)
def test_what_fails_in_the_database_fails_its_own_search(lane, error, is_away, is_input):
    lane.begin(lane.search(1))
    lane.index.error = error
    failed = lane.end()[1]
    assert isinstance(failed, Failed)
    assert (failed.is_away, failed.is_input) == (is_away, is_input)
    assert str(error) in failed.message
    lane.index.error = None
    lane.begin(lane.search(2))
    assert isinstance(lane.end()[2], Done)


def test_a_filter_that_nothing_fits_is_refused_and_an_empty_scope_is_not(lane):
    lane.index.hits_nothing = True
    lane.begin(lane.search(1, RED), lane.search(2, SearchScope("ann")))
    ends = lane.end(2)
    assert ends[1].is_input
    assert "colour=red" in ends[1].message
    assert (ends[2].result.labels < 0).all()


def test_another_embedder_under_a_running_lane_is_noticed(lane):
    lane.source.embedder = "other/16"
    lane.source.store_vectors([900], lane.tools.clustered(1))
    lane.begin(lane.search(1))
    assert "another embedder" in lane.end()[1].message


def test_vectors_are_stored_in_the_corpus(lane, tools):
    lane.index.may_end.set()
    lane.engine.apply(tools.ingest(1, [901, 902], tools.clustered(2)))
    [done] = tools.drain(lane.engine)
    assert done.result.revision == lane.source.revision
    assert 902 in lane.source.rows


def test_only_a_database_has_an_index_inside(tmp_path):
    from heddle.corpus.place import CorpusPlace
    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector.database.build import build_engine

    CorpusStore.open(tmp_path, create=True).close()
    with pytest.raises(ConfigError, match="only a corpus in PostgreSQL"):
        build_engine("vector", 0, CorpusPlace.of(tmp_path), SearchEffort(), 1.0)
