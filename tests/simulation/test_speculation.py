"""Prompts computed ahead on the virtual clock: nothing is lost or leaked, no answer changes."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest

from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.runtime.events import Answer
from heddle.simulator.faults import NO_FAULTS
from heddle.simulator.simulation import Scenario, random_scenario, simulate, undisturbed
from heddle.workflow.ragraph import RAGraph


def workflow(*, thinks):
    """Return a workflow whose search is long enough to be looked at on its way."""
    graph = RAGraph("speculating")
    if thinks:
        graph.add_generation("think", "Think of {query}", output="thought", max_tokens=4)
    query = "thought" if thinks else "query"
    graph.add_retrieval("find", query=query, topk=2, nprobe=64, output="docs")
    return graph.add_generation("answer", "Read {docs} Question: {query}", max_tokens=6).compile()


WORKFLOWS = tuple(workflow(thinks=thinks) for thinks in (False, True))


@dataclass(frozen=True, slots=True)
class LongSearches(Scenario):
    """A random stream of requests, for workflows whose searches are long."""

    def arrivals(self):
        asked = (a for a in Scenario.arrivals(self) if "query" in a.inputs)
        return tuple(
            replace(arrival, workflow=WORKFLOWS[number % 2]) for number, arrival in enumerate(asked)
        )


class Bold(Finality):
    """Calls any hits likely to stay, right or wrong: the more guesses, the more can go wrong."""

    def look(self, task_id, scanned, labels):
        super().look(task_id, scanned, labels)
        return 0.8


@pytest.fixture(autouse=True)
def _bold(monkeypatch):
    monkeypatch.setattr("heddle.simulator.simulation.Finality", Bold)
    # Guesses that have lost don't end the guessing.
    monkeypatch.setattr("heddle.costs.win_rate.WinRates.ratio", lambda self, kind, now_s: 1.0)


def drawn(seed, **more):
    """Return a seed's random scenario with long searches."""
    scenario = random_scenario(seed)
    values = {name: getattr(scenario, name) for name in Scenario.__slots__}
    own = {"nlist": 64, "has_owners": False, "speculates": True, "disabled": frozenset()}
    return LongSearches(**{**values, **own, **more})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5_000, 5_060, 15))
def test_nothing_is_lost_or_leaked_and_no_answer_changes(first):
    ends, adopted, written, reused = Counter(), Counter(), Counter(), 0
    for seed in range(first, first + 15):
        scenario = drawn(seed)
        tickets = simulate(scenario).tickets
        plain = simulate(undisturbed(scenario)).tickets
        for ticket, expected in zip(tickets, plain, strict=True):
            ends[ticket.end_name] += 1
            if isinstance(ticket.end, Answer):
                receipt = ticket.end.receipt
                assert ticket.end.text == expected.end.text
                adopted.update(told.is_adopted for told in receipt.speculations)
                for told in receipt.speculations:
                    written[told.is_adopted] += told.tokens_written
                is_adopted = any(told.is_adopted for told in receipt.speculations)
                reused += is_adopted and receipt.prompt_tokens_reused > 0
    assert adopted[True] > 5
    assert adopted[False] > 5
    assert reused > 3
    assert written[True] > 2, "tokens are written ahead, and shown"
    assert written[False] > 2, "and others dropped"
    assert all(ends[name] for name in ("Answer", "Cancelled"))


def test_answers_come_sooner_where_nobody_else_is_there():
    calm = {"rates": NO_FAULTS, "rate_per_s": 4.0, "requests": 60}
    guessed, plain = (
        simulate(drawn(11, **calm, speculates=speculates)).tickets for speculates in (True, False)
    )
    saved = [
        without.latency_s - ticket.latency_s
        for ticket, without in zip(guessed, plain, strict=True)
        if isinstance(ticket.end, Answer)
        and isinstance(without.end, Answer)
        and any(told.is_adopted for told in ticket.end.receipt.speculations)
    ]
    assert len(saved) > 5
    assert sum(saved) / len(saved) > 0


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_equal_seeds_replay_equally(seed):
    first, again = (simulate(drawn(seed)).digest for _ in range(2))
    assert first == again
    assert first != simulate(drawn(seed, speculates=False)).digest
