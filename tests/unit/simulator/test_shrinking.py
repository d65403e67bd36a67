"""A broken scenario is shrunk to what breaks it, and what is left replays."""

import pytest

from heddle.simulator import shrinking
from heddle.simulator.faults import Fault
from heddle.simulator.shrinking import Shrinker
from heddle.simulator.simulation import attempt, random_scenario

SEED = 100_001


class Broken:
    """What an attempt says where a rule is broken for some requests and strikes only."""

    def __init__(self, scenario, needed_requests, needed_strikes):
        kept, self.world = scenario.numbers_kept, self
        self.struck = scenario.strikes if scenario.strikes is not None else EVERY
        breaks = needed_requests <= kept and needed_strikes <= self.struck
        self.problems = ("broken",) if breaks else ()

    def strikes(self):
        return self.struck


EVERY = frozenset(("llm", draw) for draw in range(1, 9))


@pytest.mark.parametrize("requests", [frozenset(), frozenset({3}), frozenset({0, 5, 6})])
@pytest.mark.parametrize("strikes", [frozenset(), frozenset({("llm", 2), ("llm", 8)})])
def test_what_breaks_a_rule_is_left_and_nothing_else(monkeypatch, requests, strikes):
    monkeypatch.setattr(shrinking, "attempt", lambda s: Broken(s, requests, strikes))
    smallest = Shrinker().shrunk(random_scenario(SEED))
    assert smallest.requests_kept == requests
    assert smallest.strikes == strikes


def test_tries_are_bounded(monkeypatch):
    scenario = random_scenario(SEED)
    monkeypatch.setattr(shrinking, "attempt", lambda s: Broken(s, scenario.numbers_kept, EVERY))
    shrinker = Shrinker(tries_left=5)
    smallest = shrinker.shrunk(scenario)
    assert shrinker.tries_left == 0
    assert smallest.requests_kept == scenario.numbers_kept
    assert smallest.strikes == EVERY


def test_a_scenario_without_what_was_left_out_replays_equally():
    seeds = (random_scenario(seed) for seed in range(SEED, SEED + 20))
    scenario = next(s for s in seeds if s.rates.lose_lane + s.rates.fail_task)
    struck = attempt(scenario).world.strikes()
    assert struck
    kept = frozenset(sorted(struck)[:1])
    few = shrinking.replace(scenario, requests_kept=frozenset({0, 1, 2}), strikes=kept)
    first, again = attempt(few).world, attempt(few).world
    assert first.log.digest == again.log.digest
    assert len(first.tickets) == 3
    assert first.strikes() <= kept
    assert sum(first.faults_drawn()[fault] for fault in Fault) <= 1
