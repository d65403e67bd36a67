"""The life of a search, over a method that only counts steps."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from heddle.core import gauges
from heddle.core.commands import Cancel, Steer
from heddle.core.errors import ConfigError, Unreachable
from heddle.core.frames import Cancelled, Done, Failed, Progress
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.results import Hits, RankedHits
from heddle.core.tasks import Priority
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.search import RunningSearch, search_refusal
from heddle.simulator.cost_model_vector import NoWords

PRIOR_S = {"call": 1.0, "rows": 2.0, "compared": 0.0, "stored": 3.0}


@dataclass(slots=True, eq=False)
class CountedSearch(RunningSearch):
    """Ends after `steps_left` steps, with hits of its revision."""

    steps_left: int = 2

    def hits(self, notes=(), recall=None):
        distances, labels = self.nothing()
        return Hits(labels, distances, revision=self.revision, notes=notes, by_words=self.by_words)


class CountingMethod:
    """A SearchMethod without an index: every search in flight is a step nearer to its end."""

    dims, rows_waiting, may_follow, steps = 4, 0, True, 2

    def __init__(self, tasks):
        self.tasks, self.revision, self.vectors = tasks, 0, 7
        self.waiting, self.begun, self.dropped = [], [], []
        self.broken = ""

    @property
    def rows_in_flight(self):
        return sum(search.rows for search in self.begun)

    def refusal(self, payload):
        return search_refusal(payload)

    def search_of(self, task, payload, report_every):
        priority = task.identity.priority
        return CountedSearch(task.task_id, payload, priority, report_every, steps_left=self.steps)

    def add(self, search):
        self.waiting.append(search)

    def prioritise(self, search):
        self.waiting.sort(key=lambda search: search.priority)

    @property
    def has_work(self):
        return bool(self.tasks.running)

    def drop(self, search):
        self.dropped.append(search.task_id)
        for searches in (self.waiting, self.begun):
            if search in searches:
                searches.remove(search)

    def queue(self, now_s):
        self.now_s = now_s

    def follow(self):
        if self.broken == "follow":
            raise OSError("the disk is gone")
        self.revision += 1
        return 1

    def held_up(self):
        return [search.task_id for search in self.waiting]

    def advance(self, budget_s, *, may_begin):
        self.budget_s = budget_s
        for search in list(self.waiting) if may_begin else ():
            if self.tasks.begin(search, self.revision, self.dims):
                self.waiting.remove(search)
                self.begun.append(search)
        with self.tasks.failing("counting failed", lambda: [s.task_id for s in self.begun]):
            if self.broken == "advance":
                raise ValueError("no number")
            for search in list(self.begun):
                search.steps_left -= 1
                if search.task_id in self.tasks.reporting:
                    self.tasks.tell(Progress(search.task_id, fraction=0.5))
                if not search.steps_left:
                    self.tasks.finish(search)
        return {"rows": len(self.begun), "compared": 0}

    def predicted_step_s(self, budget_s, *, goes_on):
        return budget_s

    def work(self, payload):
        return 5.0


class Corpus:
    """A FollowedCorpus whose revision the index reaches one by one."""

    notes = ("the disk is slow",)
    problems = notes

    def __init__(self):
        self.words, self.revision, self.index, self.stored = NoWords(), 0, 0, []

    has_news = False

    def newest_revision(self):
        self.has_news = False
        return self.revision

    def ask_newest(self):
        return False

    def covers(self, revision):
        return self.method.revision >= revision

    def allowed(self, scope):
        return None

    def store(self, chunk_ids, vectors):
        self.stored += chunk_ids.tolist()
        self.revision += 1
        return self.revision

    def close(self):
        self.words = None


class FarCorpus(Corpus):
    """A corpus that takes a while to answer: searches go ahead meanwhile."""

    asked, is_away, is_silent = None, False, False
    refuses = ""  # the question or the answer

    def ask_newest(self):
        self.refuse("question")
        self.asked, self.has_news = self.revision, False
        return self.notes == Corpus.notes

    def asked_newest(self):
        asked, self.asked = self.asked, None
        self.refuse("answer")
        self.look()
        if self.is_silent:
            self.notes = ("searched as the corpus was",)
            return None
        return asked

    def newest_revision(self):
        self.look()
        return super().newest_revision()

    def refuse(self, what):
        if self.refuses == what:
            raise ConfigError("authentication failed")

    def look(self):
        if self.is_away:
            self.has_news = False
            raise Unreachable("no answer")


@pytest.fixture
def corpus():
    return Corpus()


@pytest.fixture
def engine(tools, corpus):
    return engine_over(tools, corpus)


def engine_over(tools, corpus):
    engine = SearchEngine(
        "vector",
        1,
        tools.Clock(),
        CountingMethod,
        corpus,
        substage_budget_s=0.5,
        prior_s=PRIOR_S,
        notes=("it is cold",),
    )
    corpus.method = engine.method
    return engine


def queries(count=1):
    return np.ones((count, 4), np.float32)


def test_a_search_ends_with_the_notes_of_its_engine_and_its_corpus(engine, tools):
    engine.apply(tools.search(1, queries(2)))
    [done] = tools.drain(engine)
    assert done.task_id == 1
    assert done.result.notes == ("it is cold", "the disk is slow")
    assert engine.method.dropped == [1]


def test_a_task_that_is_known_is_not_taken_twice(engine, tools):
    for _ in range(2):
        engine.apply(tools.search(1, queries()))
        engine.apply(tools.ingest(2, [5], queries()))
    assert len(tools.drain(engine)) == 2


def test_refusals_are_the_callers(engine, tools):
    engine.apply(tools.search(1, queries(), topk=0))
    engine.apply(tools.search(2, np.ones((1, 3), np.float32)))
    engine.apply(tools.ingest(3, [5], np.ones((1, 3), np.float32)))
    ended = tools.terminals(tools.drain(engine))
    assert all(end.is_input for end in ended.values())
    assert "topk" in ended[1].message
    assert "3 dimensions" in ended[2].message
    assert "3 dimensions" in ended[3].message


def test_a_fixed_index_stores_nothing(tools):
    engine = SearchEngine(
        "fixed", 0, tools.Clock(), CountingMethod, None, substage_budget_s=1.0, prior_s=PRIOR_S
    )
    assert engine.kinds == {PrimitiveKind.SEARCHING}
    engine.apply(tools.ingest(1, [5], queries()))
    engine.apply(tools.search(2, queries()))
    frame = engine.step(0.0, math.inf)
    [failed] = frame.events
    assert (failed.message, failed.is_input) == ("fixed carries out no IngestPayload", True)
    assert frame.gauges == {}
    assert isinstance(tools.terminals(tools.drain(engine))[2], Done)


def test_a_search_begins_once_the_index_has_what_was_committed_before_it(engine, corpus, tools):
    corpus.revision = 3
    engine.apply(tools.search(1, queries()))
    frames = [engine.step(0.0, math.inf) for _ in range(4)]
    assert [frame.features["followed"] for frame in frames] == [1, 1, 1, 0]
    assert [frame.features["rows"] for frame in frames] == [0, 0, 1, 0]
    assert frames[-1].events[0].result.revision == 3
    assert frames[-1].gauges == {gauges.INDEX_REVISION: 3, gauges.INDEX_VECTORS: 7}


def test_news_of_other_processes_are_followed_before_a_search_comes(engine, corpus):
    corpus.revision, corpus.has_news = 2, True
    assert engine.has_work
    frames = [engine.step(0.0, math.inf) for _ in range(3)]
    assert [frame.features["followed"] for frame in frames] == [1, 1, 0]
    assert not engine.has_work
    engine.method.broken, corpus.revision, corpus.has_news = "follow", 3, True
    engine.step(0.0, math.inf)
    assert not engine.has_work, "it waits for other news"


def test_where_the_index_cannot_follow_those_that_wait_for_it_fail(engine, corpus, tools):
    engine.apply(tools.search(1, queries()))
    engine.step(0.0, math.inf)
    corpus.revision, engine.method.broken = 1, "follow"
    engine.apply(tools.search(2, queries()))
    ended = tools.terminals(tools.drain(engine))
    assert ended[2] == Failed(2, "the index can't follow the corpus: the disk is gone")
    assert isinstance(ended[1], Done)


def test_an_error_of_the_method_fails_the_searches_that_it_names(engine, tools):
    for task_id in (1, 2):
        engine.apply(tools.search(task_id, queries()))
    engine.method.broken = "advance"
    ended = tools.terminals(tools.drain(engine))
    assert {end.message for end in ended.values()} == {"counting failed: no number"}
    assert engine.rows_in_flight == 0


def test_what_is_no_error_passes_through(engine):
    asked = []
    with (
        pytest.raises(KeyboardInterrupt),
        engine.method.tasks.failing("counting failed", lambda: asked),
    ):
        raise KeyboardInterrupt
    with engine.method.tasks.failing("counting failed", lambda: 1 / 0):
        pass  # nothing failed, so no task is looked up


def test_hits_wait_for_those_by_words_and_a_dropped_search_for_neither(engine, corpus, tools):
    payload = SearchPayload(queries(), 5, None, words=("seven",))
    for task_id in (1, 2):
        admit = tools.search(task_id, queries())
        engine.apply(admit._replace(task=admit.task._replace(payload=payload)))
    take, corpus.words.take = corpus.words.take, list
    for _ in range(2):
        told = engine.step(0.0, math.inf).events
    assert [(event.task_id, event.fraction) for event in told] == [(1, 1.0), (2, 1.0)]
    engine.apply(Cancel(2))
    corpus.words.take = take
    ended = tools.terminals(tools.drain(engine))
    assert isinstance(ended[1].result.by_words, RankedHits)
    assert ended[2] == Cancelled(2)


def test_a_failed_search_by_words_fails_its_task_before_and_after_its_hits(engine, corpus, tools):
    payload = SearchPayload(queries(), 5, None, words=("seven",))
    admit = tools.search(1, queries())
    for steps in (1, 2):
        engine.apply(admit._replace(task=admit.task._replace(payload=payload)))
        take, corpus.words.take = corpus.words.take, list
        for _ in range(steps):
            engine.step(0.0, math.inf)
        corpus.words.take = lambda: [(1, ValueError("no such word"))]
        [failed] = engine.step(0.0, math.inf).events
        corpus.words.take = take
        assert failed.message == "the search by words failed: no such word"
        corpus.words.cancel(1)
        assert not engine.has_work


def test_budgets_and_priorities_are_steered(engine, tools):
    engine.apply(tools.search(1, queries()))
    engine.apply(tools.search(2, queries()))
    engine.apply(Steer(task_id=2, priority=Priority.INTERACTIVE, budget_s=0.25))
    assert [search.task_id for search in engine.method.waiting] == [2, 1]
    engine.step(0.0, math.inf)
    assert engine.method.budget_s == engine.predicted_step_s() == 0.25
    engine.step(0.0, 0.1)
    assert engine.method.budget_s == 0.1
    engine.apply(tools.ingest(3, [5, 6], queries(2)))
    assert engine.predicted_step_s() == 0.25 + 2 * PRIOR_S["stored"]


def test_partial_hits_are_reported_for_those_that_asked(engine, tools):
    engine.apply(tools.search(1, queries(), report_every=1))
    engine.apply(tools.search(2, queries()))
    told = [event.task_id for event in tools.drain(engine) if isinstance(event, Progress)]
    assert told == [1, 1]


@pytest.fixture
def far():
    return FarCorpus()


@pytest.fixture
def ahead(tools, far):
    """An engine whose corpus is asked while searches go ahead."""
    return engine_over(tools, far)


def test_a_search_goes_ahead_while_the_corpus_is_asked(ahead, tools):
    ahead.apply(tools.search(1, queries()))
    frames = [ahead.step(0.0, math.inf) for _ in range(2)]
    assert [frame.features["rows"] for frame in frames] == [1, 0]
    assert isinstance(frames[-1].events[0], Done)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_search_that_went_ahead_of_its_corpus_begins_anew_untold(ahead, far, tools, steps):
    ahead.method.steps, far.revision = steps, 2
    ahead.apply(tools.search(1, queries(), report_every=1))
    assert ahead.step(0.0, math.inf).events == ()
    *_, done = tools.drain(ahead)
    assert done.result.revision == 2
    assert far.asked is None


def test_a_search_whose_corpus_did_not_answer_begins_anew_and_says_so(ahead, far, tools):
    far.is_silent = True
    ahead.apply(tools.search(1, queries()))
    assert ahead.step(0.0, math.inf).events == ()
    [done] = tools.drain(ahead)
    assert "searched as the corpus was" in done.result.notes


def test_a_search_that_had_begun_goes_on_when_another_begins_anew(ahead, far, tools):
    ahead.apply(tools.search(1, queries()))
    ahead.step(0.0, math.inf)
    far.revision = 1
    ahead.apply(tools.search(2, queries()))
    ended = tools.terminals(tools.drain(ahead))
    assert [ended[task_id].result.revision for task_id in (1, 2)] == [0, 1]


def test_a_search_that_is_cancelled_does_not_begin_anew(ahead, far, tools):
    far.revision = 1
    ahead.apply(tools.search(1, queries()))
    ahead.apply(Cancel(1))
    ahead.apply(tools.search(2, queries()))
    ended = tools.terminals(tools.drain(ahead))
    assert ended[1] == Cancelled(1)
    assert ended[2].result.revision == 1


def test_searches_that_went_ahead_of_a_corpus_that_is_away_fail(ahead, far, tools):
    ahead.apply(tools.search(1, queries()))
    ahead.step(0.0, math.inf)
    far.is_away = True
    ahead.apply(tools.search(2, queries()))
    ended = tools.terminals(tools.drain(ahead))
    assert isinstance(ended[1], Done)
    assert ended[2].is_away
    assert "no answer" in ended[2].message
    assert not ahead.has_work


def test_a_search_that_failed_with_the_look_does_not_begin_anew_later(ahead, far, tools):
    far.is_away, far.has_news = True, True
    ahead.apply(tools.search(1, queries()))
    first = tools.terminals(tools.drain(ahead))
    assert first[1].is_away
    far.is_away, far.revision = False, 1
    ahead.apply(tools.search(2, queries()))
    assert list(tools.terminals(tools.drain(ahead))) == [2]


@pytest.mark.parametrize("what", ["question", "answer"])
def test_a_corpus_that_refuses_fails_new_searches_once(ahead, far, tools, what):
    ahead.apply(tools.search(1, queries()))
    ahead.step(0.0, math.inf)
    far.refuses = what
    ahead.apply(tools.search(2, queries()))
    ended = tools.terminals(tools.drain(ahead))
    assert isinstance(ended[1], Done)
    assert ended[2].message == "the index can't follow the corpus: authentication failed"
    far.refuses, far.revision = "", 1
    ahead.apply(tools.search(3, queries()))
    again = tools.terminals(tools.drain(ahead))
    assert list(again) == [3]
    assert again[3].result.revision == 1


def test_behind_news_a_search_waits_for_the_index(ahead, far, tools):
    far.revision, far.has_news = 1, True
    ahead.apply(tools.search(1, queries()))
    frame = ahead.step(0.0, math.inf)
    assert (far.asked, frame.features["rows"], frame.features["followed"]) == (None, 1, 1)
