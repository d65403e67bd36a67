"""Questions run ahead on the virtual clock: nothing is lost or leaked, and no answer changes."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest

from heddle.core.kv_reuse import KvReuse, ReusePolicy
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.engines.llm.engine import LlmEngine, LlmSpec
from heddle.engines.llm.reuse.fuser import Fuser
from heddle.engines.llm.step_batch import LastQueries
from heddle.runtime.events import Answer
from heddle.simulator.cost_model_llm import COSTS_S, EOS_ID, CostModelLlmWorker, WordDecoder
from heddle.simulator.simulation import (
    LLM_LIMITS,
    PAGE_BYTES,
    Scenario,
    random_scenario,
    simulate,
    undisturbed,
)
from heddle.workflow.ragraph import RAGraph
from tests.helpers.kept_questions import questions_kept

ALONE = KvReuse(ReusePolicy.FUSIONRAG, 0.15)


class AskingWorker(CostModelLlmWorker):
    """Gives a question's queries as well: one number, its position, for each token."""

    can_share = False
    slowdowns = ()

    def run(self, batch):
        result = super().run(batch)
        places = batch.positions.astype(np.float32)
        measured = {
            index: (places[None, row.query_start : row.query_stop, None],)
            for index, row in enumerate(batch.rows)
            if isinstance(row.measure, LastQueries)
        }
        return replace(result, measured=measured)


class NoChunks:
    """A chunk KV store that holds nothing: the simulated prompts have no chunks."""

    has_completed, notes = False, ()

    def __contains__(self, key):
        return False

    def gauges(self):
        return {}

    def subscribe(self, wake):
        pass

    def close(self):
        pass

    def completed(self):
        return ()


def build_llm(name, epoch, device):
    worker = AskingWorker(device, LLM_LIMITS.page_count * LLM_LIMITS.page_size)
    spec = LlmSpec(LLM_LIMITS, frozenset({EOS_ID}), "cost model", PAGE_BYTES, COSTS_S)
    fuser = Fuser(NoChunks(), worker, "cost model")
    return LlmEngine(name, epoch, worker, spec, WordDecoder(), device, fuser=fuser)


def workflow(*, thinks):
    """Return a workflow whose prompts end with a question."""
    graph = RAGraph("asking")
    if thinks:
        graph.add_generation("think", "Think of {query}", output="thought", max_tokens=8)
    graph.add_retrieval("find", query="thought" if thinks else "query", topk=2, output="docs")
    graph.add_generation("answer", "Read {docs} Question: {query}", max_tokens=8, fence=False)
    return graph.compile()


WORKFLOWS = tuple(workflow(thinks=thinks) for thinks in (False, True))
MODE = {"optimizations": Optimizations.APPROX, "kv_reuse": ALONE}


@dataclass(frozen=True, slots=True)
class WithQuestions(Scenario):
    """A random stream of requests, for workflows whose prompts end with a question."""

    def arrivals(self):
        asked = (a for a in Scenario.arrivals(self) if "query" in a.inputs)
        return tuple(
            replace(arrival, workflow=WORKFLOWS[number % 2]) for number, arrival in enumerate(asked)
        )


@dataclass(frozen=True, slots=True)
class Asking(WithQuestions):
    """The same requests, each of which has its question run ahead."""

    def lanes(self, stored):
        *others, llm = WithQuestions.lanes(self, stored)
        return *others, replace(llm, build=build_llm)

    def arrivals(self):
        return tuple(replace(arrival, **MODE) for arrival in WithQuestions.arrivals(self))


def drawn(seed, kind):
    """Return a seed's random scenario, as one of these."""
    scenario = random_scenario(seed)
    return kind(**{name: getattr(scenario, name) for name in Scenario.__slots__})


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [3_000, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(3_050, 3_200, 50))],
)
def test_nothing_is_lost_or_leaked_and_no_answer_changes(first):
    ends, done, count = Counter(), 0, 0
    for seed in range(first, first + 50):
        with questions_kept() as kept:
            tickets = simulate(drawn(seed, Asking)).tickets
        for token_ids, queries in kept:
            assert queries.ravel().tolist() == list(range(len(token_ids))), "a torn question"
        count += len(kept)
        plain = simulate(undisturbed(drawn(seed, WithQuestions))).tickets
        for ticket, expected in zip(tickets, plain, strict=True):
            ends[ticket.end_name] += 1
            if isinstance(ticket.end, Answer):
                assert ticket.end.text == expected.end.text
                spans = ticket.end.receipt.spans
                done += sum(span.kind is PrimitiveKind.ASKING for span in spans)
    assert count > 50
    assert done > 50
    assert all(ends[name] for name in ("Answer", "Cancelled"))


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_equal_seeds_replay_equally(seed):
    first, again = (simulate(drawn(seed, Asking)).digest for _ in range(2))
    assert first == again
    assert first != simulate(drawn(seed, WithQuestions)).digest
