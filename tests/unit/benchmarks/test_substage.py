"""substage: both ways to serve find the same, and its clock moves with work and arrivals only."""

import time

import numpy as np
import pytest

from benchmarks.ivf_step import Settings, prepared_index
from benchmarks.substage import OwnClock, Query, SubStages, Whole, _with_worst, serve


@pytest.fixture(scope="module")
def indexed():
    return prepared_index(Settings(count=3000, nlist=64, seed=1, dims=16, batch=12, topics=6))


def queries_of(vectors, arrivals_s):
    nprobes = [3, 17, 64] * len(vectors)
    return [Query(at, vectors[i : i + 1], nprobes[i]) for i, at in enumerate(arrivals_s)]


def makers(index):
    return {
        "sub-stages": lambda: SubStages(index, slots=4),
        "whole": lambda: Whole(index),
    }


@pytest.mark.parametrize("gap_s", [0.0, 0.004, 10.0])
def test_both_find_the_same(indexed, gap_s):
    index, vectors = indexed
    queries = queries_of(vectors, (gap_s * np.arange(len(vectors))).tolist())
    servings = serve(makers(index), queries)
    ours, theirs = servings["sub-stages"].found, servings["whole"].found
    assert ours.keys() == theirs.keys() == set(range(len(queries)))
    for number, (distances, labels) in theirs.items():
        np.testing.assert_array_equal(ours[number][0], distances)
        np.testing.assert_array_equal(ours[number][1], labels)


def test_nobody_waits_for_the_next_arrival(indexed):
    index, vectors = indexed
    queries = queries_of(vectors, (1000.0 * np.arange(len(vectors))).tolist())
    for one in serve(makers(index), queries).values():
        assert one.now_s >= queries[-1].arrives_s
        assert one.latencies_s.max() < 1000.0
        assert one.latencies_s.min() > 0


def test_waiting_counts_from_the_arrival():
    class Slow:
        """Ends one query a step."""

        def __init__(self):
            self.waiting = []

        @property
        def has_work(self):
            return bool(self.waiting)

        def admit(self, number, query):
            self.waiting.append(number)

        def took(self, latency_s):
            pass

        def step(self):
            number = self.waiting.pop(0)
            return {number: (np.zeros(1), np.full(1, number))}

    queries = [Query(0.0, np.zeros((1, 2)), 1) for _ in range(5)]
    one = serve({"slow": Slow}, queries)["slow"]
    assert [int(one.found[i][1][0]) for i in range(5)] == [0, 1, 2, 3, 4]
    assert (np.diff(one.latencies_s) >= 0).all()
    assert one.latencies_s[-1] == one.now_s


def test_an_engine_s_clock_stands_while_others_work(monkeypatch):
    cpu_s = [10.0]
    monkeypatch.setattr(time, "process_time", lambda: cpu_s[0])
    clock = OwnClock()
    with clock.going():
        cpu_s[0] += 1.0
        assert clock.now_s() == 1.0
    cpu_s[0] += 5.0  # somebody else's step
    with clock.going():
        assert clock.now_s() == 1.0
        cpu_s[0] += 2.0
        assert clock.now_s() == 3.0


def test_the_worse_of_two_runs_is_in_the_headline():
    own = {"x_p50": 1.2, "x_p99": 1.5, "capacity_ratio": 3.0, "identical": 1}
    beside = {"x_p50": 1.6, "x_p99": 1.1, "capacity_ratio": 2.0, "identical": 0}
    worst = {"worst_p50": 1.2, "worst_p99": 1.1, "identical": 0}
    assert _with_worst(own, beside) == {**own, **worst}
