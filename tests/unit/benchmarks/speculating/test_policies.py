"""Recorded searches on virtual time: found as recorded, and no policy changes an answer."""

import random

import numpy as np
import pytest

from benchmarks.coscheduling.asks import blocks_of
from benchmarks.speculating.engines import RecordedScanner, search_numbers
from benchmarks.speculating.policies import OFF, OWN, UNGUARDED, Policy, server_of, virtual
from benchmarks.speculating.recorded import HITS, Recording
from benchmarks.speculating.rivals import RIVALS
from heddle.simulator.device import SimulatedDevice
from heddle.simulator.timeline import Timeline

NLIST, SEARCHES, PASSAGES = 400, 12, 60
QUESTIONS = [f"question {number}" for number in range(400)]


@pytest.fixture(scope="module")
def found():
    """Searches whose best hits come early, and now and then late."""
    draws = np.random.default_rng(7)
    starts, at, labels, distances = [0], [], [], []
    for _ in range(SEARCHES):
        early = [0] * HITS
        late = sorted(draws.integers(1, NLIST // 2, size=int(draws.integers(0, 3))).tolist())
        at += early + late
        labels += draws.permutation(PASSAGES)[: HITS + len(late)].tolist()
        near = np.sort(draws.random(HITS + len(late)).astype(np.float32))
        distances += [*near[len(late) :].tolist(), *near[: len(late)].tolist()]
        starts.append(len(at))
    return Recording(
        NLIST,
        np.array(starts),
        np.array(at),
        np.array(labels),
        np.array(distances, np.float32),
        draws.integers(20, 60, size=PASSAGES),
    )


def asks(found, count, blocks, rate_per_s, seed):
    return blocks_of(QUESTIONS, count, blocks, rate_per_s, seed, found.nprobes)


def test_a_scan_in_pieces_finds_the_recorded_best(found):
    scanner = RecordedScanner(SimulatedDevice(Timeline(), random.Random(0)), found)
    queries = np.array([[1.0, 1.0 + number] for number in range(SEARCHES)], np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    assert search_numbers(queries, SEARCHES) == list(range(SEARCHES))
    distances = np.full((SEARCHES, 3), np.inf, np.float32)
    labels = np.full((SEARCHES, 3), -1, np.int64)
    order = scanner.coarse(queries, NLIST)
    for first in range(0, NLIST, 30):
        scanner.scan(queries, order[:, first : first + 30], distances, labels)
    for number in range(SEARCHES):
        mine = slice(*found.starts[number : number + 2].tolist())
        best = np.argsort(found.distances[mine])[:3]
        assert labels[number].tolist() == found.labels[mine][best].tolist()


@pytest.mark.parametrize(
    "policy",
    [
        OWN,
        UNGUARDED,
        Policy("ralmspec", rival=RIVALS["ralmspec"]["stride 1"]),
        Policy("ragcache", rival=RIVALS["ragcache"]["stays 0, queue 4"]),
    ],
    ids=lambda policy: policy.name,
)
def test_no_policy_changes_an_answer_and_others_than_ralmspec_guess(found, policy):
    told, texts = [], []
    for one in (OFF, policy):
        server = server_of(found, one, 1)
        blocks = [server.serve(virtual(block)) for block in asks(found, 20, 4, 4.0, 5)]
        texts.append([served.text for block in blocks for served in block])
        told.append([g for block in blocks for s in block for g in s.receipt.speculations])
    assert texts[0] == texts[1]
    # The cache of RaLMSpec is a request's own: most workflows search but once.
    has_guessed = any(guess.probability < 1.0 for guess in told[1])
    assert has_guessed or policy.name == "ralmspec"


def test_asks_at_once_end_sooner_than_one_after_the_other(found):
    (saturating,) = asks(found, 20, 1, 0.0, 2)
    at_once, alone = (
        server_of(found, OFF, 1).serve_in_turn(virtual(saturating), in_flight)[-1].ended_s
        for in_flight in (8, 1)
    )
    assert at_once < alone
