"""HedraRAG §4.2 on the virtual clock: short sub-stages let a search start, and end, sooner.

Both runs serve the same staggered searches on the same engine, whose own sub-stage is a whole
batch: what arrives waits for it. With the pass, the runtime steers it to the length that a replay
of the newest searches found best.

One search in eight is deep. When all are equally long the mean falls less: none overtakes another.
"""

import random
from dataclasses import replace
from statistics import mean

import pytest

from heddle.core.primitives import PrimitiveKind
from heddle.runtime.events import Answer
from heddle.simulator.simulation import Scenario, simulate
from heddle.simulator.workload import Arrival
from heddle.workflow.ragraph import RAGraph

SEARCHES = 240
NPROBE = {"quick": 2, "deep": 48}


class Searches(Scenario):
    """A stream of searches and nothing else, on a lane that takes eight of them at once."""

    def lanes(self, disk):
        embedding, vector, llm = Scenario.lanes(self, disk)
        return embedding, replace(vector, credits_total=8), llm

    def arrivals(self):
        workflows = {
            name: RAGraph(name).add_retrieval("find", topk=3, nprobe=nprobe).compile()
            for name, nprobe in NPROBE.items()
        }
        draws = random.Random(self.seed)
        now_s, arrivals = 0.0, []
        for number in range(SEARCHES):
            now_s += draws.expovariate(self.rate_per_s)
            workflow = workflows["quick" if draws.randrange(8) else "deep"]
            arrivals.append(Arrival(now_s, workflow, {"query": f"question {number}"}))
        return tuple(arrivals)


def searching_s(ticket):
    return sum(
        span.done_s - span.ready_s
        for span in ticket.end.receipt.spans
        if span.kind is PrimitiveKind.SEARCHING
    )


@pytest.mark.parametrize("seed", range(5))
def test_mean_search_latency_falls_and_results_stay(seed):
    split = Searches(
        seed=seed, rate_per_s=150.0, requests_max=200, substage_budget_s=float("inf"), nlist=48
    )
    whole = replace(split, disabled=frozenset({"split_substages"}))
    with_pass, without = simulate(split).tickets, simulate(whole).tickets
    assert all(isinstance(ticket.end, Answer) for ticket in (*with_pass, *without))
    for one, other in zip(with_pass, without, strict=True):
        assert one.end.passages == other.end.passages
    fast, slow = mean(map(searching_s, with_pass)), mean(map(searching_s, without))
    print(f"seed {seed}: mean search {1e3 * fast:.2f} ms split, {1e3 * slow:.2f} ms whole")
    assert fast < 0.85 * slow
