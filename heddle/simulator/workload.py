"""Random workflows and when requests for them arrive, from one seed."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.core.kv_reuse import FULL_ATTENTION, KvReuse
from heddle.core.search_scope import Where
from heddle.core.tasks import Optimizations, Priority
from heddle.simulator.library import SHELF, SHELVES
from heddle.simulator.random_graphs import random_function, random_graph
from heddle.workflow.indexing import indexing_workflow
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.workflow import State, Workflow

WORDS: Final = ("river", "bridge", "mayor", "archive", "harbour", "fire", "winter", "letter")
DEADLINE_S_TIGHT: Final = (0.005, 0.15)
CANCEL_AFTER_S_MAX: Final = 0.2  # about the time that a request takes


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a workload: what is asked when, and whether the caller gives up.

    `deadline_s` None leaves the runtime's own; `cancel_after_s` counts from the arrival.
    """

    at_s: float
    workflow: Workflow
    inputs: Mapping[str, object]
    deadline_s: float | None = None
    cancel_after_s: float | None = None
    priority: Priority = Priority.NORMAL
    tenant: str = ""
    optimizations: Optimizations = Optimizations.EXACT
    kv_reuse: KvReuse = FULL_ATTENTION
    where: Where = ()


@dataclass(frozen=True, slots=True)
class WorkloadShares:
    """How often a request has something special, as shares of all requests."""

    tight_deadline: float = 0.1
    cancelled: float = 0.15
    too_long: float = 0.03
    bulk: float = 0.1
    unoptimized: float = 0.1
    filtered: float = 0.15


USUAL_SHARES: Final = WorkloadShares()


def random_workload(
    draws: random.Random,
    requests: int,
    rate_per_s: float,
    *,
    shares: WorkloadShares = USUAL_SHARES,
    question_words_max: int = 400,
) -> tuple[Arrival, ...]:
    """Return a Poisson stream of requests over a few random workflows.

    Args:
        draws: where every choice comes from.
        requests: how many there are.
        rate_per_s: mean arrivals a second.
        shares: how often a request is cancelled, bulk, too long, or in a hurry.
        question_words_max: words of a question that is too long for the model.
    """
    workflows = [draws.choice(SHAPES)(draws) for _ in range(draws.randint(1, 3))]
    arrivals = []
    now_s = 0.0
    for number in range(requests):
        now_s += draws.expovariate(rate_per_s)
        if draws.random() < shares.bulk:
            arrivals.append(_bulk(draws, now_s, number))
        else:
            words = 3 if draws.random() >= shares.too_long else question_words_max
            arrivals.append(_question(draws, now_s, draws.choice(workflows), words, shares))
    return tuple(arrivals)


def _question(
    draws: random.Random, now_s: float, workflow: Workflow, words: int, shares: WorkloadShares
) -> Arrival:
    # Everything is drawn for every request, so other shares leave the rest of the stream alone.
    hurry, deadline_s = draws.random(), draws.uniform(*DEADLINE_S_TIGHT)
    regret, cancel_after_s = draws.random(), draws.uniform(0.0, CANCEL_AFTER_S_MAX)
    is_off = draws.random() < shares.unoptimized
    is_filtered, shelf = draws.random() < shares.filtered, str(draws.randrange(SHELVES))
    return Arrival(
        at_s=now_s,
        workflow=workflow,
        inputs={"query": " ".join(draws.choice(WORDS) for _ in range(words))},
        deadline_s=deadline_s if hurry < shares.tight_deadline else None,
        cancel_after_s=cancel_after_s if regret < shares.cancelled else None,
        priority=draws.choice((Priority.INTERACTIVE, Priority.NORMAL)),
        tenant=draws.choice(("", "a", "b")),
        optimizations=Optimizations.OFF if is_off else Optimizations.EXACT,
        where=((SHELF, (shelf,)),) if is_filtered else (),
    )


def _bulk(draws: random.Random, now_s: float, number: int) -> Arrival:
    chunk_ids = tuple(range(100 * number, 100 * number + draws.randint(1, 12)))
    texts = tuple(f"{draws.choice(WORDS)} {i}" for i in chunk_ids)
    return Arrival(
        at_s=now_s,
        workflow=indexing_workflow(),
        inputs={"texts": texts, "chunk_ids": chunk_ids},
        priority=Priority.BULK,
    )


# -- the shapes of workflows ----------------------------------------------------------------------


def one_shot(draws: random.Random) -> Workflow:
    """Return: search, answer."""
    graph = RAGraph("one_shot")
    graph.add_retrieval("find", topk=draws.randint(1, 3), nprobe=draws.choice((None, 2, 8)))
    graph.add_generation("answer", "Answer {query} from {docs}", max_tokens=draws.randint(1, 8))
    return graph.compile()


def chain(draws: random.Random) -> Workflow:
    """Return: imagine, search with that, shorten, answer."""
    graph = RAGraph("chain")
    graph.add_generation("imagine", "Imagine {query}", "idea", max_tokens=draws.randint(1, 6))
    graph.add_retrieval("find", query="idea", topk=draws.randint(1, 3))
    graph.add_generation("shorten", "Shorten {docs}", "summary", max_tokens=draws.randint(1, 6))
    graph.add_generation("answer", "Answer {query} from {summary}", max_tokens=4)
    return graph.compile()


def branches(draws: random.Random) -> Workflow:
    """Return: two searches and two drafts side by side, then one answer of all."""
    graph = RAGraph("branches")
    graph.add_retrieval("left", query="{query} left", output="docs_left", topk=2)
    graph.add_retrieval("right", query="{query} right", output="docs_right", topk=2)
    for side in ("left", "right"):
        tokens = draws.randint(1, 6)
        prompt = f"Draft {{query}} from {{docs_{side}}}"
        graph.add_generation(f"draft_{side}", prompt, f"draft_{side}", max_tokens=tokens)
    graph.add_generation("answer", "Join {draft_left} and {draft_right}", max_tokens=4)
    return graph.compile()


def list_search(draws: random.Random) -> Workflow:
    """Return: write several queries, search for all of them at once, answer."""
    graph = RAGraph("list_search")
    tokens = draws.randint(4, 12)
    graph.add_generation("plan", "Plan {query}", "parts", max_tokens=tokens, parse="lines")
    graph.add_retrieval("find", query="parts", topk=draws.randint(1, 4))
    graph.add_generation("answer", "Answer {query} from {docs}", max_tokens=4)
    return graph.compile()


def list_loop(draws: random.Random) -> Workflow:
    """Return: HedraRAG's Listing 1, a loop that takes one item of a list a turn."""
    graph = RAGraph("list_loop", max_steps=draws.choice((7, 64)))
    graph.add_generation(0, "Decompose {query}", "part", max_tokens=draws.randint(4, 12))
    graph.add_retrieval(1, query="part", topk=2)
    graph.add_generation(2, "Answer {part} using {docs}", max_tokens=4)
    graph.add_edge(START, 0).add_edge(0, 1).add_edge(1, 2)
    graph.add_edge(2, _while_parts_are_left)
    return graph.compile()


def counted_loop(draws: random.Random) -> Workflow:
    """Return: search, answer, and again with the answer, collecting passages."""
    turns = draws.randint(1, 3)
    graph = RAGraph("counted_loop")
    graph.add_retrieval("find", query="{query} {draft}", topk=2, collect=True)
    graph.add_generation("answer", "Improve {draft} with {docs}", "draft", max_tokens=4)
    graph.add_edge(START, "find").add_edge("find", "answer")
    graph.add_edge("answer", _turns(turns))
    return graph.compile()


def faulty_edge(draws: random.Random) -> Workflow:
    """Return: a workflow whose callable edge raises for some questions."""
    graph = RAGraph("faulty_edge")
    graph.add_retrieval("find", topk=2)
    graph.add_generation("answer", "Answer {query} from {docs}", max_tokens=3)
    graph.add_edge(START, "find").add_edge("find", "answer")
    graph.add_edge("answer", _raise_for_rivers)
    return graph.compile()


def rounds(draws: random.Random) -> Workflow:
    """Return: search, then an answer that searches again while it is written."""
    graph = RAGraph("rounds")
    graph.add_retrieval("find", topk=draws.randint(1, 2))
    below = draws.choice((None, 0.3, 0.9))
    graph.add_generation(
        "answer",
        "Answer {query} from {docs}",
        max_tokens=draws.randint(4, 16),
        retrieve_every=draws.randint(1, 4) if below is None else None,
        retrieve_below=below,
        query="{query} {sentence}",
        retrievals_max=draws.randint(1, 5),
        added_max=draws.randint(1, 4),
    )
    graph.add_generation("shorten", "Shorten {output_answer}", max_tokens=3)
    return graph.compile()


SHAPES: Final[Sequence[Callable[[random.Random], Workflow]]] = (
    one_shot,
    chain,
    branches,
    list_search,
    list_loop,
    counted_loop,
    faulty_edge,
    rounds,
    random_graph,
    random_function,
)


def _while_parts_are_left(state: State) -> object:
    return 1 if state["part"] else END


def _turns(count: int) -> Callable[[State], object]:
    return lambda state: END if state["turn"] >= count else "find"


def _raise_for_rivers(state: State) -> object:
    if "river" in str(state["query"]):
        raise ValueError("this edge can't cross rivers")
    return END
