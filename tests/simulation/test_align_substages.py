"""HedraRAG §4.2's other half, generation sub-stages: where the lanes step freely, they only cost.

The paper cuts both stages to one length, because its workers meet in each cycle. Our lanes don't
meet: the LLM lane never waits for a search, and a prompt waits for the rest of one of its steps. So
no pass sets the budget of LLM steps; a user's pass can, as here, and this is what it would gain.
"""

import random
from dataclasses import dataclass, replace
from statistics import fmean

from heddle.engines.llm.scheduler import SchedulerLimits
from heddle.passes.cycle_view import SetBudget
from heddle.passes.runner import CYCLE_PASSES
from heddle.runtime.events import Answer
from heddle.simulator import simulation
from heddle.simulator.simulation import Scenario, simulate
from heddle.simulator.workload import Arrival
from heddle.workflow.ragraph import RAGraph

# A step of 64 prompt tokens takes 15 ms, one that only decodes 2.5 ms, a search 9 ms.
LIMITS = SchedulerLimits(
    max_num_seqs=16,
    max_num_batched_tokens=64,
    page_size=4,
    page_count=1200,
    context_tokens_max=400,
)
SUBSTAGE_S = 0.008


class Questions(Scenario):
    """One-shot questions whose search and prompt take about as long."""

    def lanes(self, disk):
        return tuple(replace(lane, credits_total=64) for lane in Scenario.lanes(self, disk))

    def arrivals(self):
        graph = RAGraph("oneshot").add_retrieval("find", topk=8, nprobe=24)
        graph.add_generation("answer", "{docs} " + "word " * 30 + "{query}", max_tokens=12)
        workflow, draws, now_s, arrivals = graph.compile(), random.Random(self.seed), 0.0, []
        for number in range(self.requests):
            now_s += draws.expovariate(self.rate_per_s)
            question = f"question {number} " + "more " * draws.randrange(40)
            arrivals.append(Arrival(now_s, workflow, {"query": question}))
        return tuple(arrivals)


@dataclass
class AlignSubstages:
    """Gives LLM steps a share of the budget of search steps while both have work."""

    share: float
    name: str = "align_substages"

    def apply(self, view):
        llm = view.engines["llm"]
        both = view.engines["vector"].in_flight and llm.in_flight
        wanted_s = self.share * SUBSTAGE_S if both else float("inf")
        return () if llm.budget_s == wanted_s else (SetBudget("llm", wanted_s, 0.0),)


def latencies_s(seed, share=None):
    passes = CYCLE_PASSES if share is None else (*CYCLE_PASSES, AlignSubstages(share))
    scenario = Questions(
        seed=seed,
        rate_per_s=18.0,
        requests=60,
        requests_max=500,
        nlist=48,
        substage_budget_s=SUBSTAGE_S,
        cycle_passes=passes,
    )
    tickets = simulate(scenario).tickets
    assert all(isinstance(ticket.end, Answer) for ticket in tickets)
    return [ticket.ended_s - ticket.arrival.at_s for ticket in tickets]


def test_shorter_llm_steps_beside_searches_gain_nothing(monkeypatch):
    monkeypatch.setattr(simulation, "LLM_LIMITS", LIMITS)
    monkeypatch.setattr(simulation, "VECTOR_SLOTS", 32)
    free = fmean(s for seed in range(2) for s in latencies_s(seed))
    for share in (0.25, 1.0):
        aligned = fmean(s for seed in range(2) for s in latencies_s(seed, share))
        print(f"share {share}: mean {1e3 * aligned:.1f} ms, free {1e3 * free:.1f} ms")
        assert aligned > 0.99 * free
