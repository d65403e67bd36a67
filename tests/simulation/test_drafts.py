"""Drafted tokens on the virtual clock: no answer changes, nothing leaks, loops end earlier."""

from dataclasses import dataclass, replace

import pytest

from heddle.core.tasks import Optimizations
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.passes.draft_answers import DraftAnswers
from heddle.runtime.events import Answer
from heddle.simulator.cost_model_llm import COSTS_S, EOS_ID, CostModelLlmWorker, WordDecoder
from heddle.simulator.simulation import (
    LLM_LIMITS,
    PAGE_BYTES,
    USUAL_SHARES,
    Scenario,
    random_scenario,
    simulate,
    undisturbed,
)
from heddle.workflow.ragraph import END, START, RAGraph

STEADY_SHARE = 0.8
PASS = DraftAnswers().name
NOBODY_GIVES_UP = replace(USUAL_SHARES, tight_deadline=0.0, cancelled=0.0, too_long=0.0)
# A step costs ten times a token, as for a small model on a CPU.
STEP_S = {**COSTS_S, "call": 2e-3}


def build_llm(name, epoch, device):
    slots = LLM_LIMITS.page_count * LLM_LIMITS.page_size
    worker = CostModelLlmWorker(device, slots, steady_share=STEADY_SHARE)
    spec = LlmSpec(LLM_LIMITS, frozenset({EOS_ID}), "cost model", PAGE_BYTES, STEP_S)
    return LlmEngine(name, epoch, worker, spec, WordDecoder(), device)


def refining(turns):
    """Return a loop that answers again with more passages."""
    graph = RAGraph("refining")
    graph.add_retrieval("find", query="{query} {answer}", topk=2, output="docs", collect=True)
    graph.add_generation("answer", "Read {docs} for {query}", output="answer", max_tokens=24)
    graph.add_edge(START, "find").add_edge("find", "answer")
    again = lambda state: "find" if state["turn"] < turns else END  # noqa: E731
    return graph.add_edge("answer", again, targets=["find"]).compile()


WORKFLOWS = (refining(2), refining(4))


@dataclass(frozen=True, slots=True)
class Looping(Scenario):
    """A random stream of requests that answer in loops."""

    def lanes(self, stored):
        *others, llm = Scenario.lanes(self, stored)
        return *others, replace(llm, build=build_llm)

    def arrivals(self):
        asked = (a for a in Scenario.arrivals(self) if "query" in a.inputs)
        return tuple(
            replace(a, workflow=WORKFLOWS[number % 2], optimizations=Optimizations.EXACT)
            for number, a in enumerate(asked)
        )


def drawn(seed):
    """Return a seed's random scenario, as one of these."""
    scenario = random_scenario(seed)
    return Looping(**{name: getattr(scenario, name) for name in Scenario.__slots__})


def without_drafts(scenario):
    return replace(scenario, disabled=scenario.disabled | {PASS})


@pytest.mark.parametrize("first", [0, pytest.param(1_000, marks=pytest.mark.slow)])
def test_no_answer_changes_whatever_happens(first):
    answered = accepted = 0
    for seed in range(first, first + (10 if first == 0 else 100)):
        scenario = drawn(seed)
        tickets = simulate(scenario).tickets
        plain = simulate(without_drafts(undisturbed(scenario))).tickets
        for ticket, expected in zip(tickets, plain, strict=True):
            if isinstance(ticket.end, Answer):
                assert ticket.end.text == expected.end.text
                answered += 1
                accepted += ticket.end.receipt.accepted_tokens
                assert ticket.end.receipt.accepted_tokens <= ticket.end.receipt.drafted_tokens
                assert expected.end.receipt.drafted_tokens == 0
    assert answered > 20
    assert accepted > answered


def test_loops_that_repeat_their_texts_end_earlier():
    scenario = Looping(seed=5, requests=40, shares=NOBODY_GIVES_UP)
    drafted, plain = simulate(scenario), simulate(without_drafts(scenario))
    assert [t.end.text for t in drafted.tickets] == [t.end.text for t in plain.tickets]
    took_s = [
        sum(ticket.end.receipt.latency_s for ticket in outcome.tickets)
        for outcome in (drafted, plain)
    ]
    assert took_s[0] < 0.9 * took_s[1]


def test_equal_seeds_replay_equally():
    assert simulate(drawn(7)).digest == simulate(drawn(7)).digest
