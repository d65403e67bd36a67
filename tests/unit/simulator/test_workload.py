"""Workloads are random, valid, and the same for the same seed."""

import random
from dataclasses import replace

import pytest

from heddle.core.tasks import Priority
from heddle.simulator.simulation import random_scenario, undisturbed
from heddle.simulator.workload import SHAPES, USUAL_SHARES, random_workload


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_compiles_for_any_draw(shape):
    for seed in range(20):
        workflow = shape(random.Random(seed))
        assert workflow.nodes or workflow.function


def workload(seed, **options):
    return random_workload(random.Random(seed), 60, 10.0, **options)


def described(arrivals):
    return [(a.at_s, a.workflow.name, a.inputs, a.deadline_s, a.cancel_after_s) for a in arrivals]


def test_equal_seeds_ask_the_same():
    assert described(workload(1)) == described(workload(1))
    assert described(workload(1)) != described(workload(2))


def test_arrivals_are_in_order_and_about_as_fast_as_asked():
    arrivals = workload(1)
    times_s = [arrival.at_s for arrival in arrivals]
    assert times_s == sorted(times_s)
    assert 3 < times_s[-1] < 12


def test_special_requests_come_at_their_shares():
    arrivals = [a for seed in range(20) for a in workload(seed)]
    questions = [a for a in arrivals if a.priority is not Priority.BULK]
    assert 0.07 < 1 - len(questions) / len(arrivals) < 0.13
    assert 0.1 < sum(a.cancel_after_s is not None for a in questions) / len(questions) < 0.2
    assert 0.07 < sum(a.deadline_s is not None for a in questions) / len(questions) < 0.13


def test_other_shares_leave_the_rest_of_the_stream_alone():
    calm = replace(USUAL_SHARES, tight_deadline=0.0, cancelled=0.0)
    for one, other in zip(workload(3), workload(3, shares=calm), strict=True):
        assert (one.at_s, one.inputs, one.tenant) == (other.at_s, other.inputs, other.tenant)
        assert other.deadline_s is other.cancel_after_s is None


def test_an_undisturbed_scenario_asks_the_same():
    scenario = random_scenario(4)
    pairs = zip(scenario.arrivals(), undisturbed(scenario).arrivals(), strict=True)
    assert all((one.at_s, one.inputs) == (other.at_s, other.inputs) for one, other in pairs)
