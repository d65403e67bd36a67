"""The applications of Teola's evaluation. (§2.1, Fig. 2; §7)"""

from typing import Final

from heddle.workflow.nodes import PromptRole
from heddle.workflow.presets import SUBQUESTIONS_TOKENS
from heddle.workflow.prompt_texts import prompt_text
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.synthesis import add_refine, add_tree

DOCUMENT_TOPK: Final = 3
EXPANDED_TOPK: Final = 16


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
