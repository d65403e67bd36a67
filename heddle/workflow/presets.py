"""The ready-made workflows: `quote`, five of HedraRAG's evaluation (§6.1, Fig. 3)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from heddle.core.errors import WorkflowError
from heddle.workflow.nodes import PromptRole
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import (
    AUTO,
    DEFAULT_MAX_STEPS,
    DEFAULT_TOPK,
    END,
    START,
    TOPK_MAX,
    RAGraph,
)
from heddle.workflow.template import TURN
from heddle.workflow.workflow import Chooser, State

# Instruction first, passages next, question last: so the instruction's KV is one prefix for all
# requests, and a passage's KV can be reused at any position. A model that was trained on other
# words brings them along (heddle.workflow.model_prompts).
ANSWER: Final = prompt_text("answer")
HYPOTHESIS: Final = prompt_text("hypothesis")
SUBQUESTIONS: Final = prompt_text("subquestions")
SUMMARY: Final = prompt_text("summary")
ANSWER_FROM_SUMMARY: Final = prompt_text("answer_from_summary")

# A model ends its answer by itself; these bound one that doesn't, and cut no whole sentence.
ANSWER_TOKENS = 256
HYPOTHESIS_TOKENS = 128
SUBQUESTIONS_TOKENS = 128
SUMMARY_TOKENS = 256
IRG_TURNS = 2
QUOTE_TOPK = 10  # reading finds the answer among more (docs/development/extractor.md)
RERANKED_OF = 4  # passages that a model reads, for each one that is kept
RECOMP_TOPK = 6  # more than elsewhere: what doesn't help is cut away


def search(topk: int | None = None, *, hybrid: bool = False, rerank: bool = False) -> RAGraph:
    """Retrieve once, and answer nothing: a search by itself, with a door of its own.

    With `rerank` a model reads four times as many passages with the query, and the best are kept.
    """
    graph = RAGraph("search")
    kept = DEFAULT_TOPK if topk is None else topk
    found = min(TOPK_MAX, RERANKED_OF * kept) if rerank else kept
    graph.add_retrieval(
        "retrieve",
        topk=found,
        allow_fewer=True,
        hybrid=hybrid,
        rerank=min(kept, found) if rerank else None,
    )
    return graph


def quote(topk: int | None = None) -> RAGraph:
    """Retrieve once, and quote the answer from the passages; no model writes text.

    It searches by words, too: options and names of functions are found by them.
    """
    graph = RAGraph("quote")
    wanted = QUOTE_TOPK if topk is None else topk
    graph.add_retrieval("retrieve", topk=wanted, allow_fewer=topk is None, hybrid=True)
    graph.add_extraction("quote", "docs", output="quotes")
    return graph


def oneshot(topk: int | None = None) -> RAGraph:
    """Retrieve once, answer once.

    Without a `topk`, the server may read more passages and show the model fewer of them.
    """
    graph = RAGraph("oneshot")
    graph.add_retrieval("retrieve", query="query", topk=topk, rerank=None if topk else AUTO)
    add_answer(graph)
    return graph


def hyde(topk: int | None = None) -> RAGraph:
    """Search with a hypothetical passage that the model writes first. (Gao et al. 2022)

    The question goes into the search too, so a weak hypothesis can't lose it.
    """
    graph = RAGraph("hyde")
    graph.add_generation(
        "imagine",
        HYPOTHESIS,
        output="hypothesis",
        max_tokens=HYPOTHESIS_TOKENS,
        role=PromptRole.HYPOTHESIS.value,
    )
    graph.add_retrieval("retrieve", query="{query} {hypothesis}", topk=topk)
    add_answer(graph)
    return graph


def multistep(topk: int | None = None) -> RAGraph:
    """Split the question, search for all parts at once, answer over all their passages."""
    graph = RAGraph("multistep")
    graph.add_generation(
        "decompose",
        SUBQUESTIONS,
        output="subquestions",
        max_tokens=SUBQUESTIONS_TOKENS,
        parse="lines",
        role=PromptRole.SUBQUESTIONS.value,
    )
    graph.add_retrieval(
        "retrieve", query="{query} {subquestions}", output="docs", topk=topk, collect=True
    )
    add_answer(graph)
    return graph


def irg(topk: int | None = None, turns: int = IRG_TURNS) -> RAGraph:
    """Iterate: search with the question and the answer so far, answer again. (Shao et al. 2023)

    Raises:
        WorkflowError: `turns` is below 1.
    """
    if turns < 1:
        raise WorkflowError(f"irg: turns must be at least 1, got {turns}")
    nodes_run = turns * len(("retrieve", "answer"))
    graph = RAGraph("irg", max_steps=max(DEFAULT_MAX_STEPS, nodes_run))
    graph.add_retrieval(
        "retrieve", query="{query} {answer}", output="docs", topk=topk, collect=True
    )
    add_answer(graph)
    graph.add_edge(START, "retrieve").add_edge("retrieve", "answer")
    graph.add_edge("answer", _until(turns), targets=["retrieve"])
    return graph


def recomp(topk: int | None = None) -> RAGraph:
    """Compress the passages to what they say about the question, then answer. (Xu et al. 2024)"""
    wanted = RECOMP_TOPK if topk is None else topk
    graph = RAGraph("recomp")
    graph.add_retrieval("retrieve", topk=wanted, allow_fewer=topk is None)
    graph.add_generation(
        "compress",
        SUMMARY,
        output="summary",
        max_tokens=SUMMARY_TOKENS,
        role=PromptRole.SUMMARY.value,
    )
    graph.add_generation(
        "answer",
        ANSWER_FROM_SUMMARY,
        output="answer",
        max_tokens=ANSWER_TOKENS,
        role=PromptRole.ANSWER_FROM_SUMMARY.value,
    )
    return graph


def add_answer(graph: RAGraph, **options: Any) -> None:  # noqa: ANN401 - those of add_generation
    """Add the generation that answers the question from the passages of slot `docs`.

    `options` are others of `RAGraph.add_generation`.
    """
    graph.add_generation(
        "answer",
        ANSWER,
        output="answer",
        max_tokens=ANSWER_TOKENS,
        role=PromptRole.ANSWER.value,
        **options,
    )


def _until(turns: int) -> Chooser:
    def again(state: State) -> object:
        return "retrieve" if state[TURN] < turns else END

    return again


PRESETS: Final[Mapping[str, Callable[[], RAGraph]]] = {
    "quote": quote,
    "oneshot": oneshot,
    "hyde": hyde,
    "multistep": multistep,
    "irg": irg,
    "recomp": recomp,
}


def preset(name: str) -> RAGraph:
    """Return a ready-made workflow by name.

    Raises:
        WorkflowError: no such workflow.
    """
    if name not in PRESETS:
        raise WorkflowError(f"workflow {name!r} is unknown; there are {', '.join(PRESETS)}")
    return PRESETS[name]()
