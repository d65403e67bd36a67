"""Orders and edges that a cycle pass draws at random, under faults, change no answer."""

import random
from dataclasses import dataclass, field, replace

import pytest

from heddle.passes.cycle_view import AddEdge, Reorder
from heddle.passes.runner import CYCLE_PASSES
from heddle.runtime.events import Answer
from heddle.simulator.simulation import random_scenario, simulate, undisturbed


@dataclass
class AtRandom:
    """Shuffles what waits for each engine, and lets some of it wait for something else."""

    draws: random.Random
    name: str = "at_random"
    asked: dict[str, int] = field(default_factory=lambda: {"order": 0, "edge": 0})

    def apply(self, view):
        edits = []
        for engine in view.engines:
            waiting = [ready for ready in view.wavefront if ready.engine == engine]
            self.draws.shuffle(waiting)
            if len(waiting) > 1:
                edits.append(Reorder(engine, tuple(ready.key for ready in waiting), 0.0))
        own = {}
        for ready in view.wavefront:
            if ready.is_untouched:
                own.setdefault(ready.identity.request_id, []).append(ready.primitive)
        for request_id, names in own.items():
            producer, *others = self.draws.sample(names, len(names))
            if others and self.draws.random() < 0.5:
                edits.append(AddEdge(request_id, producer, others[0], 0.0))
        self.asked["order"] += sum(isinstance(edit, Reorder) for edit in edits)
        self.asked["edge"] += sum(isinstance(edit, AddEdge) for edit in edits)
        return tuple(edits)


@pytest.mark.parametrize("first", range(3_000, 3_060, 20))
def test_answers_are_those_of_the_undisturbed_runtime(first):
    asked = {"order": 0, "edge": 0}
    edited = 0
    for seed in range(first, first + 20):
        scenario = random_scenario(seed)
        at_random = AtRandom(random.Random(seed))
        edits = replace(scenario, cycle_passes=(*CYCLE_PASSES, at_random))
        tickets, plain = simulate(edits).tickets, simulate(undisturbed(scenario)).tickets
        for ticket, expected in zip(tickets, plain, strict=True):
            if isinstance(ticket.end, Answer):
                assert isinstance(expected.end, Answer), f"seed {seed}: {expected.end}"
                assert ticket.end.text == expected.end.text
                assert ticket.end.passages == expected.end.passages
                edited += bool(ticket.end.receipt.edits)
        for kind, times in at_random.asked.items():
            asked[kind] += times
    assert asked["order"]
    assert asked["edge"]
    assert edited
