"""The bounds of what is kept, and that scopes stay apart."""

import tracemalloc
from dataclasses import replace

import numpy as np

from heddle.core.passages import Passage
from heddle.core.results import FinishReason
from heddle.graph.primitive import SearchConfig
from heddle.runtime.answer_cache import AnswerCache, AnswerCacheLimits, DropReason
from heddle.runtime.kept_answer import KeptAnswer, KeptSearch

SEARCH = SearchConfig("vectors", 1, None)


class SameHash:
    """A scope whose hash is that of every other."""

    def __hash__(self):
        return 7


def kept(question, scope="s", *, angle=None, chunk_id=1, text="yes", kept_s=0.0):
    vector = None if angle is None else np.array([np.cos(angle), np.sin(angle)], np.float32)
    passage = Passage(chunk_id, "d", "t", "x")
    search = KeptSearch(SEARCH, np.zeros((1, 2), np.float32), (), True, (passage,))
    end = FinishReason.STOP
    return KeptAnswer(
        scope, question, vector, "n", text, (passage,), (), (), end, {}, (search,), 1, kept_s
    )


def near(cache, question, angle, scope="s"):
    vector = np.array([np.cos(angle), np.sin(angle)], np.float32)
    found = cache.similar(scope, question, vector, 0.9, 0.0)
    return None if found is None else found[0].question


def test_the_answer_that_was_used_last_stays():
    cache = AnswerCache(AnswerCacheLimits(entries_max=2))
    for question in ("a", "b"):
        cache.put(kept(question), 0.0)
    cache.equal("s", "a", 0.0)
    cache.put(kept("c"), 0.0)
    assert cache.equal("s", "b", 0.0) is None
    assert cache.equal("s", "a", 0.0)
    assert cache.state.dropped == {"changed": 0, "expired": 0, "evicted": 1}


def test_it_stays_within_its_bytes():
    one = kept("a", text="x" * 10_000)
    cache = AnswerCache(AnswerCacheLimits(bytes_max=int(2.5 * one.nbytes)))
    for question in "abc":
        cache.put(kept(question, text="x" * 10_000), 0.0)
    assert cache.state.entries == 2
    assert one.nbytes < cache.nbytes <= cache.limits.bytes_max
    cache.put(kept("d", text="x" * 30_000), 0.0)
    assert cache.equal("s", "d", 0.0) is None
    assert cache.state.entries == 2


def test_what_answers_are_told_apart_by_counts_as_well():
    where = (("file", tuple(f"file-{number}" for number in range(1000))),)
    small, large = kept("a", ("tenant", ())), kept("a", ("tenant", where))
    assert large.nbytes - small.nbytes > sum(len(name) for name in where[0][1])


def test_another_answer_to_a_question_takes_its_place():
    cache = AnswerCache()
    cache.put(kept("bell", angle=0.0), 0.0)
    cache.put(kept("bell", angle=0.0, text="no"), 0.0)
    assert cache.state.entries == 1
    assert cache.equal("s", "bell", 0.0).text == "no"
    assert near(cache, "Bell?", 0.1) == "bell"


def test_what_is_too_old_goes_also_where_it_is_not_asked_for():
    cache = AnswerCache(AnswerCacheLimits(age_s_max=100.0))
    cache.put(kept("a", kept_s=0.0), 0.0)
    cache.put(kept("b", kept_s=150.0), 150.0)
    assert cache.state.entries == 1
    assert cache.state.dropped["expired"] == 1


def test_a_chunk_takes_all_answers_along_that_rest_on_it():
    cache = AnswerCache()
    for question, chunk_id in (("a", 1), ("b", 2), ("c", 1)):
        cache.put(kept(question, chunk_id=chunk_id), 0.0)
    cache.forget_chunks([1, 9])
    assert [q for q in "abc" if cache.equal("s", q, 0.0)] == ["b"]
    cache.forget_chunks([2])
    assert cache.nbytes == 0


def test_the_nearest_question_of_its_scope_is_found():
    cache = AnswerCache()
    for i in range(100):  # more than the matrix has rows at first
        cache.put(kept(f"far {'x' * i}", angle=2.0 + i / 100), 0.0)
    cache.put(kept("near", angle=0.2), 0.0)
    cache.put(kept("nearer", "other", angle=0.11), 0.0)
    cache.put(kept("also near", angle=0.3), 0.0)
    assert near(cache, "near", 0.1) == "near"
    assert near(cache, "not near", 0.1, "other") is None  # its words tell them apart
    assert near(cache, "nearer", 0.1, "other") == "nearer"
    assert near(cache, "near", 1.2) is None
    cache.drop(cache.equal("s", "near", 0.0), DropReason.EVICTED)
    assert near(cache, "also near", 0.1) == "also near"


def test_scopes_of_one_hash_stay_apart():
    cache, here, there = AnswerCache(), SameHash(), SameHash()
    cache.put(kept("bell", here, angle=0.1), 0.0)
    assert near(cache, "bell", 0.1, there) is None
    assert cache.equal(there, "bell", 0.0) is None
    assert near(cache, "bell", 0.1, here) == "bell"


def test_a_row_is_free_again_when_its_answer_goes():
    cache = AnswerCache(AnswerCacheLimits(entries_max=3))
    vector = np.full(1024, 1 / 32, np.float32)
    tracemalloc.start()
    try:
        for i in range(1000):
            cache.put(replace(kept(f"q{i}"), vector=vector), 0.0)
        assert tracemalloc.get_traced_memory()[0] < 100 * vector.nbytes
    finally:
        tracemalloc.stop()
    found = cache.similar("s", "q999", vector, 0.9, 0.0)
    assert found is not None
    assert found[0].question == "q999"


def test_an_answer_without_a_vector_is_near_no_question():
    cache = AnswerCache()
    cache.put(kept("q", angle=None), 0.0)
    assert near(cache, "q", 0.1) is None
