"""Random workloads with faults, from fixed seeds: nothing is lost, leaked or said twice.

A failure names its seed and `python -m heddle.simulator --seed N --log`, which replays it.
"""

import os
import subprocess
import sys
from collections import Counter

import pytest

from heddle.core.results import Ingested
from heddle.runtime.events import Answer
from heddle.simulator.faults import Fault
from heddle.simulator.simulation import random_scenario, simulate, undisturbed

SEEDS = 1_000
SEEDS_A_TEST = 50
SEEDS_FAST = 100  # that `make test-fast` runs
SEEDS_CHANGE = 300  # that `make test` runs; the rest waits for the night


def marks(first):
    if first < SEEDS_FAST:
        return ()
    return (pytest.mark.slow,) if first < SEEDS_CHANGE else (pytest.mark.slow, pytest.mark.nightly)


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=marks(first)) for first in range(0, SEEDS, SEEDS_A_TEST)],
)
def test_nothing_is_lost_leaked_or_answered_twice(first):
    ends = Counter()
    faults = Counter()
    resumed = 0
    for seed in range(first, first + SEEDS_A_TEST):
        outcome = simulate(random_scenario(seed))
        ends.update(ticket.end_name for ticket in outcome.tickets)
        faults += outcome.faults
        answers = [t.end for t in outcome.tickets if isinstance(t.end, Answer)]
        resumed += sum(answer.receipt.resumed for answer in answers)
    # The checks are inside `simulate`; here: they had something to check.
    assert ends["Answer"] > SEEDS_A_TEST
    assert ends["Cancelled"]
    assert ends["DeadlineExceeded"]
    assert resumed
    assert sum(faults[fault] > 0 for fault in Fault) > len(Fault) / 2


@pytest.mark.parametrize("seed", range(2_000, 2_040))
def test_an_answer_is_what_the_undisturbed_runtime_answers(seed):
    scenario = random_scenario(seed)
    tickets, plain = simulate(scenario).tickets, simulate(undisturbed(scenario)).tickets
    for ticket, expected in zip(tickets, plain, strict=True):
        if isinstance(ticket.end, Answer):
            assert isinstance(expected.end, Answer), f"seed {seed}: {expected.end}"
            assert ticket.end.text == expected.end.text
            assert ticket.end.passages == expected.end.passages
            assert _timeless(ticket.end.slots) == _timeless(expected.end.slots)


def _timeless(slots):
    """Leave out the revision of a stored batch: it says how many were stored before it."""
    return {slot: value for slot, value in slots.items() if not isinstance(value, Ingested)}


@pytest.mark.parametrize("seed", [1, 7, 42, 123])
def test_equal_seeds_replay_equally(seed):
    scenario = random_scenario(seed)
    assert simulate(scenario).digest == simulate(scenario).digest


def test_other_seeds_don_t():
    digests = {simulate(random_scenario(seed)).digest for seed in range(10)}
    assert len(digests) == 10


def test_a_replay_doesn_t_depend_on_the_hash_seed():
    def printed(hash_seed):
        command = [sys.executable, "-m", "heddle.simulator", "--seed", "5"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert printed("1") == printed("2")
