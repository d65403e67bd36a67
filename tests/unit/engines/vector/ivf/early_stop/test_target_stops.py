"""The engine over real FAISS keeps the recall that was promised, and stops where it may."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.support.noted_stops import NotedStops
from heddle.core.commands import Cancel
from heddle.core.search_scope import SearchScope
from heddle.core.tasks import Optimizations
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.compared_lists import ComparedLists
from heddle.engines.vector.ivf.early_stop.calibration import SAMPLE_MIN
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import FILTERED_IN_FULL, ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.recall.self_check import OPEN_MAX, SelfCheck

COUNT, TARGET, K = 4000, 0.9, 5


class QuickLooks(ComparedLists):
    """Looks at searches of a small corpus as often as at those of a large one."""

    vectors_per_look = 100


@pytest.fixture(scope="module", params=list(IndexKind), ids=lambda kind: kind.value)
def corpus(tools, request):
    """A corpus for each kind of index; no test changes it."""
    source = tools.Source(tools.clustered(COUNT, clusters=200))
    source.metadata["area", "south"] = set(range(1, 2001))
    return FollowedIvf(LiveIndex.build(source, kind=request.param), source)


def engine_over(corpus, tools, target=TARGET, lists_of=QuickLooks, **options):
    lists = lists_of(corpus)
    check = SelfCheck(lists, **options)
    stops = TargetStops(lists, check, target)
    return ivf_engine("vector", 0, corpus, tools.Clock(), check=check, stops=stops)


def questions(tools, count, seed):
    """Draw new vectors around the centres that the corpus has."""
    rng = np.random.default_rng(seed)
    near = tools.clustered(COUNT, clusters=200)[rng.integers(0, COUNT, count)]
    drawn = near + 0.15 * rng.standard_normal(near.shape)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.ascontiguousarray(drawn, np.float32)


def approximate(tools, task_id, queries, request_id=None, **options):
    """Return the command for a search that may find less than all its clusters hold."""
    admit = tools.search(task_id, queries, K, **options)
    identity = admit.task.identity._replace(
        request_id=task_id if request_id is None else request_id
    )
    task = admit.task._replace(optimizations=Optimizations.APPROX, identity=identity)
    return admit._replace(task=task)


def answers(engine, tools, queries, first_id=0):
    """Ask one after the other, with time to run samples again; return the hits of each."""
    found = []
    for number, query in enumerate(queries, first_id):
        engine.apply(approximate(tools, number, query[None]))
        found += [event.result for event in tools.drain(engine, budget_s=1.0)]
    return found


def calibrated(corpus, tools):
    engine = engine_over(corpus, tools, share=0.2)
    answers(engine, tools, questions(tools, SAMPLE_MIN + 8, 1))
    return engine


def recall_of(corpus, queries, hits):
    """Return the mean share of the exact hits that was found, by their distances."""
    shares, lists = [], ComparedLists(corpus)
    for query, found in zip(queries, hits, strict=True):
        distances, labels = np.full((1, K), np.inf, np.float32), np.full((1, K), -1, np.int64)
        prepared, first, is_over = corpus.scanner.prepared(query[None]), 0, False
        while not is_over:
            first, _ = lists.compare_piece(prepared, first, distances, labels)
            is_over = first == 0
        shares.append(float((found.distances[0] <= distances.max() + 1e-5).mean()))
    return float(np.mean(shares))


def test_searches_keep_the_recall_that_was_promised_and_scan_less(corpus, tools):
    engine = engine_over(corpus, tools, share=0.2)
    asked = questions(tools, 3 * SAMPLE_MIN, 1)
    learning = answers(engine, tools, asked)
    assert all("not calibrated yet" in hits.notes[0] for hits in learning[:SAMPLE_MIN])
    assert all(
        hits.counts.lists_scanned == hits.counts.lists_probed for hits in learning[:SAMPLE_MIN]
    )
    held_back = questions(tools, 300, 2)
    found = answers(engine, tools, held_back, first_id=1000)
    assert not any(hits.notes for hits in found)
    assert recall_of(corpus, held_back, found) >= TARGET - 0.03
    scanned, probed = (
        sum(getattr(h.counts, n) for h in found) for n in ("lists_scanned", "lists_probed")
    )
    assert scanned < 0.8 * probed
    estimate = found[-1].recall
    assert estimate.checks >= 50
    assert estimate.at_least < estimate.recall


def test_a_request_for_exact_answers_gets_them_beside_others(corpus, tools):
    engine = calibrated(corpus, tools)
    asked = questions(tools, 60, 3)
    for number, query in enumerate(asked):
        admit = approximate(tools, number, query[None])
        if number % 2:
            admit = tools.search(number, query[None], K)
        engine.apply(admit)
    ended = tools.terminals(tools.drain(engine, budget_s=1e-3))
    for number in range(1, 60, 2):
        distances, labels = corpus.scanner.search_at_once(
            asked[number : number + 1], K, corpus.scanner.nprobe_default
        )
        hits = ended[number].result
        np.testing.assert_array_equal(hits.distances, distances)
        np.testing.assert_array_equal(hits.labels, labels)
        assert hits.counts.lists_scanned == hits.counts.lists_probed
    stopped = [ended[number].result for number in range(0, 60, 2)]
    assert sum(h.counts.lists_scanned for h in stopped) < sum(
        h.counts.lists_probed for h in stopped
    )


def test_until_it_is_calibrated_answers_are_those_of_a_full_search(corpus, tools):
    engine = engine_over(corpus, tools)
    asked = questions(tools, 20, 4)
    for query, hits in zip(asked, answers(engine, tools, asked), strict=True):
        kept = TargetStops.hits_kept(K)
        nprobe = corpus.scanner.nprobe_default
        distances, _ = corpus.scanner.search_at_once(query[None], kept, nprobe)
        np.testing.assert_array_equal(hits.distances, distances[:, :K])


def test_equal_searches_in_equal_order_are_answered_equally(corpus, tools):
    once, twice = (
        answers(engine_over(corpus, tools, share=0.2), tools, questions(tools, 120, 5))
        for _ in range(2)
    )
    for one, other in zip(once, twice, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        assert (one.counts.lists_scanned, one.recall) == (other.counts.lists_scanned, other.recall)


def test_what_a_request_found_before_is_looked_for_first_and_counted(corpus, tools):
    asked = questions(tools, 40, 6)
    scanned = {}
    for is_same in (True, False):
        engine = calibrated(corpus, tools)
        cached = scanned[is_same] = 0
        for number, query in enumerate(asked):
            first, second = 1000 + number, 1000 + number + (0 if is_same else 5000)
            near = 0.97 * query + 0.03 * asked[number - 1]
            near /= np.linalg.norm(near)
            for part, (request, vector) in enumerate([(first, query), (second, near)]):
                command = approximate(tools, 2 * number + part, vector[None], request)
                engine.apply(command)
                [event] = tools.drain(engine, budget_s=1.0)
                if part:
                    scanned[is_same] += event.result.counts.lists_scanned
                    cached += event.result.counts.hits_cached
        assert cached > 100 if is_same else cached == 0
    assert scanned[True] <= scanned[False]


def missed(corpus, tools, planned):
    """Return a question whose hits lie beyond the planned lists, and the distances of both."""
    for query in questions(tools, 200, 11):
        exact, _ = corpus.scanner.search_at_once(query[None], K, len(corpus.scanner.list_sizes))
        found, _ = corpus.scanner.search_at_once(query[None], K, planned)
        if found[0, K - 1] > exact[0, K - 1] + 1e-3:
            return query, exact[0, :K], found[0, :K]
    raise AssertionError("every question finds all its hits")


def test_what_a_request_found_before_is_compared_before_any_list(corpus, tools):
    planned = 8
    query, exact, of_lists = missed(corpus, tools, planned)
    lists = QuickLooks(corpus)
    check = SelfCheck(lists)
    stops = NotedStops(lists, check, TARGET)
    engine = ivf_engine("vector", 0, corpus, tools.Clock(), check=check, stops=stops)
    everywhere = len(corpus.scanner.list_sizes)
    later = {}
    for number, (request, nprobe) in enumerate([(7, everywhere), (7, planned), (8, planned)]):
        engine.apply(approximate(tools, number, query[None], request, nprobe=nprobe))
        [event] = tools.drain(engine, budget_s=1.0)
        later[number] = event.result
        scan = stops.newest
    np.testing.assert_allclose(later[1].distances[0], exact, atol=1e-6)
    assert len(set(later[1].labels[0].tolist())) == K  # each once
    assert later[1].counts.lists_scanned == planned
    np.testing.assert_array_equal(later[2].distances[0], of_lists)  # another request knew nothing
    assert scan.hits.sum() > 0
    payload = tools.search(9, query[None], K, nprobe=planned).task.payload
    command = approximate(tools, 9, query[None], 7)
    task = command.task._replace(payload=payload, optimizations=Optimizations.EXACT)
    engine.apply(command._replace(task=task))
    [event] = tools.drain(engine, budget_s=1.0)
    np.testing.assert_array_equal(event.result.distances[0], of_lists)  # nor does an exact search


def test_lists_are_not_expected_to_hold_what_is_known(corpus, tools):
    [query] = questions(tools, 1, 12)
    lists = QuickLooks(corpus)
    check = SelfCheck(lists)
    stops = NotedStops(lists, check, TARGET)
    engine = ivf_engine("vector", 0, corpus, tools.Clock(), check=check, stops=stops)
    hits = []
    for number in range(2):
        engine.apply(approximate(tools, number, query[None], 7))
        tools.drain(engine, budget_s=1.0)
        scan = stops.newest
        hits.append(int(scan.hits.sum()))
        known = scan.recall[0, 0]
    assert hits == [K, 0]
    assert known == 1


def test_what_was_deleted_since_is_not_known(tools):
    source = tools.Source(tools.clustered(COUNT, clusters=200))
    for kind in IndexKind:
        corpus = FollowedIvf(LiveIndex.build(source, kind=kind), source)
        engine = engine_over(corpus, tools)
        [query] = questions(tools, 1, 13)
        found = []
        for number in range(2):
            engine.apply(approximate(tools, number, query[None], 7))
            [event] = tools.drain(engine, budget_s=1.0)
            found.append(event.result.labels[0].tolist())
            if number == 0:
                source.delete(found[0][:2])
        assert not set(found[1]) & set(found[0][:2])
        assert set(found[0][2:]) < set(found[1])


def test_a_filter_scans_everything_and_says_so(corpus, tools):
    engine = calibrated(corpus, tools)
    command = approximate(tools, 9000, questions(tools, 1, 7))
    scope = SearchScope("", (("area", ("south",)),))
    payload = replace(command.task.payload, scope=scope)
    engine.apply(command._replace(task=command.task._replace(payload=payload)))
    [event] = tools.drain(engine)
    assert event.result.notes == (FILTERED_IN_FULL,)
    assert event.result.counts.lists_scanned == event.result.counts.lists_probed


def test_cancelled_searches_leave_room_for_other_samples(corpus, tools):
    engine = engine_over(corpus, tools)
    for number, query in enumerate(questions(tools, 2 * OPEN_MAX, 8)):
        engine.apply(approximate(tools, number, query[None]))
    engine.step(0.0, 1e-9)
    for number in range(2 * OPEN_MAX):
        engine.apply(Cancel(number))
    tools.drain(engine)
    assert engine.rows_in_flight == 0
    answers(engine, tools, questions(tools, 3, 9), first_id=100)
    assert engine.step(0.0, 1.0).recall.checks == 3


def test_samples_whose_search_fails_leave_room_for_others(tools):
    class Forgetful(QuickLooks):
        knows = False

        def known(self, query, chunk_ids):
            if not Forgetful.knows:
                raise OSError("the vectors are gone")
            return super().known(query, chunk_ids)

    source = tools.Source(tools.clustered(COUNT, clusters=200))
    corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.FLAT), source)
    engine = engine_over(corpus, tools, lists_of=Forgetful)
    for number, query in enumerate(questions(tools, OPEN_MAX + 2, 14)):
        for task_id in (2 * number, 2 * number + 1):  # the second knows what the first has found
            engine.apply(approximate(tools, task_id, query[None], request_id=number))
            [event] = tools.drain(engine, budget_s=1.0)
        assert "the vectors are gone" in event.message
    checks = engine.step(0.0, 1.0).recall.checks
    Forgetful.knows = True
    answers(engine, tools, questions(tools, 3, 15), first_id=1000)
    assert engine.step(0.0, 1.0).recall.checks == checks + 3


def test_searches_looked_at_together_stop_where_each_would_alone(corpus, tools):
    asked = questions(tools, 40, 16)
    alone = answers(calibrated(corpus, tools), tools, asked, first_id=1000)
    engine = calibrated(corpus, tools)
    for number, query in enumerate(asked):
        engine.apply(approximate(tools, 1000 + number, query[None]))
    together = tools.terminals(tools.drain(engine, budget_s=1.0))
    for number, hits in enumerate(alone):
        other = together[1000 + number].result
        np.testing.assert_array_equal(hits.labels, other.labels)
        assert hits.counts.lists_scanned == other.counts.lists_scanned
    assert engine.rows_in_flight == 0


def test_where_scanning_is_as_fast_as_asking_nothing_is_asked(tools):
    source = tools.Source(tools.clustered(COUNT, clusters=200))
    corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.PQ), source)
    engine = engine_over(corpus, tools, lists_of=ComparedLists, share=0.5)
    found = answers(engine, tools, questions(tools, 40, 10))
    assert all("no longer than to ask" in hits.notes[0] for hits in found)
    assert all(hits.counts.lists_scanned == hits.counts.lists_probed for hits in found)
    assert found[-1].recall.checks > 5  # watched all the same
