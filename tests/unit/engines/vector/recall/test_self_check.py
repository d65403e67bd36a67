"""A share of the searches is run again, exactly, and their recall is reported."""

import numpy as np
import pytest

from heddle.core.commands import Cancel
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.compared_lists import ComparedLists
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.recall.self_check import OPEN_MAX, Sample, SelfCheck

COUNT = 3000


@pytest.fixture(scope="module", params=list(IndexKind), ids=lambda kind: kind.value)
def served(tools, request):
    source = tools.Source(tools.clustered(COUNT))
    return FollowedIvf(LiveIndex.build(source, kind=request.param), source)


class PieceIndex:
    """Vectors on a line at 1, 2, 3, ..., compared two at a time; the query is at 0."""

    def __init__(self, count=6):
        self.count, self.revision = count, 1
        self.error = None

    def compare_piece(self, query, first, distances, labels):
        if self.error is not None:
            raise self.error
        for place in range(first, min(first + 2, self.count)):
            worst = int(np.argmax(distances[0]))
            if place + 1 < distances[0, worst]:
                distances[0, worst], labels[0, worst] = place + 1, place
        stop = first + 2
        return type("Piece", (), {"next": stop if stop < self.count else 0, "compared": 2})


def sample(*found, revision=1, ended=-1, heard=None):
    rows = np.array(found, np.float32)
    return Sample(np.zeros((1, 1), np.float32), rows, ended, revision, heard)


def finish(check):
    compared = 0
    while check.has_work:
        compared += check.advance()
    return compared


def test_recall_counts_hits_as_near_as_the_exact_ones_at_each_look():
    heard = []
    check = SelfCheck(PieceIndex(), share=1.0)
    assert check.wants()
    looks = [9, 9, 9], [1, 2, 9], [1, 4, 9], [1, 2, 3]
    check.add(sample(*looks, ended=1, heard=lambda *told: heard.append(told)))
    assert finish(check) == 6
    [(recalls, labels)] = heard
    # The third look has lost a hit that the second had: such a hit was not found.
    np.testing.assert_allclose(recalls, [0, 1 / 3, 1 / 3, 1])
    assert sorted(labels.tolist()) == [0, 1, 2]
    assert check.estimate.recall == pytest.approx(1 / 3)


def test_no_more_samples_are_open_than_idle_time_allows():
    check = SelfCheck(PieceIndex(), share=1.0)
    assert sum(check.wants() for _ in range(50)) == OPEN_MAX
    for _ in range(OPEN_MAX - 1):
        check.drop()
    check.add(sample([1, 2, 3]))
    finish(check)
    assert sum(check.wants() for _ in range(50)) == OPEN_MAX


def test_a_sample_is_given_up_when_the_index_changes_or_fails(caplog):
    index = PieceIndex()
    check = SelfCheck(index, share=1.0)
    for name, value in (("revision", 2), ("error", OSError("gone"))):
        check.add(sample([1, 2, 3], revision=index.revision))
        check.advance()
        setattr(index, name, value)
        check.advance()
        assert not check.has_work
        assert check.estimate is None
    assert "could not be run again exactly" in caplog.text


class GivenRebuild:
    """A rebuild whose index the test makes."""

    is_due, problem = False, ""
    live = None

    @property
    def is_ready(self):
        return self.live is not None

    def take(self):
        live, self.live = self.live, None
        return live

    def start(self):
        """Make nothing."""


def test_samples_are_given_up_when_another_index_takes_over_at_the_same_revision(tools):
    source = tools.Source(tools.clustered(COUNT))
    rebuild = GivenRebuild()
    corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.FLAT), source, rebuild=rebuild)
    check = SelfCheck(ComparedLists(corpus), share=1.0)
    engine = ivf_engine("v", 0, corpus, tools.Clock(), check=check)
    engine.apply(tools.search(1, tools.clustered(OPEN_MAX, seed=1), 5))
    while (before := engine.step(0.0, 60.0).recall) is None:
        pass
    assert before.checks < OPEN_MAX  # the others wait
    rebuild.live = LiveIndex.build(source, kind=IndexKind.PANORAMA)
    engine.apply(tools.search(2, tools.clustered(1, seed=2), 5))
    tools.drain(engine)
    assert not rebuild.is_ready
    assert engine.step(0.0, 1.0).recall.checks == before.checks + 1


def test_the_choice_is_that_share_and_the_same_every_time():
    def chosen(seed):
        check, taken = SelfCheck(PieceIndex(), share=1 / 64, seed=seed), []
        for number in range(6400):
            if check.wants():
                taken.append(number)
                check.drop()
        return taken

    assert 60 <= len(chosen(0)) <= 140
    assert chosen(0) == chosen(0) != chosen(1)


def test_pieces_compare_every_vector_exactly(served, tools):
    vectors = tools.clustered(COUNT)
    query = tools.clustered(1, seed=9)
    lists, prepared = ComparedLists(served), served.scanner.prepared(query)
    distances, labels = np.full((1, 7), np.inf, np.float32), np.full((1, 7), -1, np.int64)
    compared, first, is_over = 0, 0, False
    while not is_over:
        first, count = lists.compare_piece(prepared, first, distances, labels)
        compared, is_over = compared + count, first == 0
    assert compared == COUNT
    exact = np.sort(((vectors - query) ** 2).sum(axis=1))[:7]
    np.testing.assert_allclose(np.sort(distances[0]), exact, atol=2e-3)  # half precision
    assert len(set(labels[0].tolist())) == 7


def test_an_engine_tells_what_its_searches_find(served, tools):
    check = SelfCheck(ComparedLists(served), share=1.0)
    engine = ivf_engine("vector", 0, served, tools.Clock(), check=check)
    assert engine.step(0.0, 1.0).recall is None
    for number in range(20):
        engine.apply(tools.search(number, tools.clustered(1, seed=number), 200, nprobe=2))
    frame = engine.step(0.0, 1.0)
    assert engine.has_work  # no search waits, but samples do
    while engine.has_work:
        frame = engine.step(0.0, 1.0)
    assert frame.recall.checks == OPEN_MAX
    assert 0 < frame.recall.recall < 1  # two lists don't hold all
    engine.apply(tools.search(99, tools.clustered(1, seed=99), 5))
    [done] = tools.drain(engine)
    assert done.result.recall == frame.recall


def test_a_full_search_finds_what_the_exact_one_does(tools):
    source = tools.Source(tools.clustered(COUNT))
    corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.FLAT), source)
    check = SelfCheck(ComparedLists(corpus), share=1.0)
    engine = ivf_engine("v", 0, corpus, tools.Clock(), check=check)
    for number in range(30):
        engine.apply(tools.search(number, tools.clustered(3, seed=number), 5))
        engine.apply(Cancel(number - 1))
        tools.drain(engine)
    assert engine.step(0.0, 1.0).recall.recall == 1
