"""Teola's document QA and search engine (§2.1, Fig. 2; §7), and FLARE."""

from typing import Final

from heddle.workflow.connectors import CONNECTOR_S_MAX, WEB_SEARCH, Connector, Lookup
from heddle.workflow.nodes import PromptRole
from heddle.workflow.presets import ANSWER_TOKENS, SUBQUESTIONS_TOKENS, add_answer
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import START, RAGraph
from heddle.workflow.synthesis import add_refine, add_tree
from heddle.workflow.workflow import State

DOCUMENT_TOPK: Final = 3
EXPANDED_TOPK: Final = 16
WEB_RESULTS: Final = 4
PROXY_TOKENS: Final = 64
VERDICT_TOKENS: Final = 4
SURE: Final = "yes"
FLARE_BELOW: Final = 0.4
FLARE_RETRIEVALS: Final = 4


def doc_qa_naive(topk: int = DOCUMENT_TOPK) -> RAGraph:
    """Answer from documents that come with the request: from each passage, then merged."""
    graph = RAGraph("doc_qa_naive")
    graph.add_documents("index")
    graph.add_retrieval("retrieve", topk=topk, allow_fewer=True, within="indexed")
    return add_tree(graph, groups=topk)


def doc_qa_advanced(topk: int = DOCUMENT_TOPK) -> RAGraph:
    """Search documents that come with the request in several wordings, rank, answer and refine.

    Each wording finds 16 passages; a model that ranks keeps `topk` of them all.
    """
    graph = RAGraph("doc_qa_advanced")
    graph.add_documents("index")
    graph.add_generation(
        "expand",
        prompt_text("expansions"),
        output="wordings",
        max_tokens=SUBQUESTIONS_TOKENS,
        parse="lines",
        role=PromptRole.SUBQUESTIONS.value,
    )
    graph.add_retrieval(
        "retrieve",
        query="{query} {wordings}",
        topk=EXPANDED_TOPK,
        collect=True,
        allow_fewer=True,
        within="indexed",
        rerank=topk,
        rerank_by="query",
    )
    return add_refine(graph, groups=topk)


def search_engine(web_search: Connector) -> RAGraph:
    """Answer from memory; where a judge isn't sure of that, search the web and answer from it.

    The answer from memory stands where no search is needed, or where it finds nothing.

    Args:
        web_search: the connector, which returns results such as texts, the best first; four of
            them are read. A search that takes longer than 30 s fails its request.
    """
    graph = RAGraph("search_engine")
    graph.add_generation("proxy", prompt_text("proxy"), "guess", max_tokens=PROXY_TOKENS)
    graph.add_generation("judge", prompt_text("judge"), "verdict", max_tokens=VERDICT_TOKENS)
    # The edge leaves a join, so that no caller takes the verdict for an answer.
    graph.add_join("weigh", ["verdict"], "weighed")
    graph.add_tool(
        "look_up",
        Lookup(WEB_SEARCH, web_search, WEB_RESULTS),
        ["query"],
        "docs",
        timeout_s=CONNECTOR_S_MAX,
    )
    graph.add_generation(
        "answer",
        prompt_text("answer_from_web"),
        "answer",
        max_tokens=ANSWER_TOKENS,
        needs="docs",
        if_empty="{guess}",
    )
    graph.add_edge(START, "proxy").add_edge("proxy", "judge").add_edge("judge", "weigh")
    graph.add_edge("weigh", after_judge, ["look_up", "answer"])
    graph.add_edge("look_up", "answer")
    return graph


def after_judge(state: State) -> str:
    """Return the node after the judge: only a plain yes spares the search."""
    return "answer" if state["verdict"].strip().lower().startswith(SURE) else "look_up"


def flare(topk: int | None = None) -> RAGraph:
    """Search again while answering, before words that the model isn't sure of. (Jiang et al. 2023)

    Each search is for the question and the sentence that is being written.
    """
    graph = RAGraph("flare")
    graph.add_retrieval("retrieve", topk=topk)
    add_answer(graph, retrieve_below=FLARE_BELOW, retrievals_max=FLARE_RETRIEVALS)
    return graph
