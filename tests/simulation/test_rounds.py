"""Retrieval while decoding on the virtual clock: no seam where nothing is new, and bounded work.

The simulated model's every token depends on every token before it, so one that is lost, told
twice or encoded anew at a seam changes the rest of the answer.
"""

import random
from dataclasses import dataclass, replace

import pytest

from heddle.core.results import FinishReason
from heddle.runtime.events import Answer
from heddle.simulator.faults import FaultRates
from heddle.simulator.simulation import LLM_LIMITS, Scenario, random_scenario, simulate
from heddle.simulator.workload import WORDS, Arrival
from heddle.workflow.ragraph import RAGraph

NOTHING_NEW = "query"  # what the passages in the prompt were found with
ANSWER_TOKENS = 14


def workflow(**options):
    graph = RAGraph("rounds").add_retrieval("find", topk=2)
    prompt = "Answer {query} from {docs}"
    return graph.add_generation("answer", prompt, max_tokens=ANSWER_TOKENS, **options).compile()


PLAIN = workflow()
WAYS = {
    "every token": workflow(retrieve_every=1, retrievals_max=20, query=NOTHING_NEW),
    "every four": workflow(retrieve_every=4, query=NOTHING_NEW),
    "in doubt": workflow(retrieve_below=0.5, query=NOTHING_NEW),
}


@dataclass(frozen=True, slots=True)
class Questions(Scenario):
    """A stream of questions to one workflow."""

    way: str = ""

    def arrivals(self):
        draws = random.Random(self.seed)
        now_s, arrivals = 0.0, []
        for _ in range(self.requests):
            now_s += draws.expovariate(self.rate_per_s)
            question = {"query": " ".join(draws.choice(WORDS) for _ in range(3))}
            arrivals.append(Arrival(now_s, WAYS.get(self.way, PLAIN), question))
        return tuple(arrivals)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rates", [FaultRates(), FaultRates(0.01, 0.01, 0.01, 0.005, 0.01, 0.01)])
def test_where_nothing_is_new_the_answer_is_that_of_one_decode(way, rates):
    asked = Questions(seed=5, requests=30, rate_per_s=200.0, way=way, rates=rates)
    tickets = simulate(asked).tickets
    plain = simulate(replace(asked, way="plain", rates=FaultRates())).tickets
    compared = 0
    for ticket, expected in zip(tickets, plain, strict=True):
        if isinstance(ticket.end, Answer):
            assert ticket.end.text == expected.end.text
            assert ticket.end.passages == expected.end.passages
            assert ticket.end.receipt.generated_tokens == expected.end.receipt.generated_tokens
            compared += bool(ticket.end.receipt.splices)
    assert compared > 5


def test_only_the_last_page_is_computed_again_where_nothing_is_new():
    tickets = simulate(Questions(seed=1, requests=6, rate_per_s=1.0, way="every four")).tickets
    splices = [splice for ticket in tickets for splice in ticket.end.receipt.splices]
    assert {s.at_token for s in splices} == {4, 8, 12}
    assert all(0 < s.tokens_computed <= LLM_LIMITS.page_size for s in splices)
    assert all(s.chunks_found == 2 and s.chunks_added == s.chunks_dropped == 0 for s in splices)


def test_random_workloads_retrieve_add_and_drop():
    """The workloads that the checks of every simulation see have something to check."""
    splices = [
        splice
        for seed in range(80)
        for ticket in simulate(random_scenario(seed)).tickets
        if isinstance(ticket.end, Answer)
        for splice in ticket.end.receipt.splices
    ]
    assert {s.reason for s in splices} == {FinishReason.INTERVAL, FinishReason.LOW_CONFIDENCE}
    assert sum(s.chunks_added > 0 for s in splices) > 20
    assert sum(s.chunks_dropped > 0 for s in splices) > 5
