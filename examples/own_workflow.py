"""A workflow with a branch: search wider where the first passages hold no year."""

import re
import sys
from collections.abc import Mapping

from heddle import END, START, RAGraph, Server

ANSWER = "Answer the question from the notes.\n\n{docs}Question: {query}"


def widen_or_end(state: Mapping[str, object]) -> object:
    """Choose the next node: the wide search where the answer has no year, else the end."""
    return END if re.search(r"\d{4}", str(state["draft"])) else "search_wide"


def when() -> RAGraph:
    """Return the workflow: a narrow search, a draft, and where needed a wide search."""
    graph = RAGraph("when")
    graph.add_retrieval("search", topk=1, output="docs")
    graph.add_generation("draft", ANSWER, output="draft", max_tokens=16)
    graph.add_retrieval("search_wide", topk=3, output="more")
    graph.add_generation("answer", ANSWER.replace("{docs}", "{more}"), max_tokens=16)
    graph.add_edge(START, "search")
    graph.add_edge("search", "draft")
    graph.add_edge("draft", widen_or_end, targets=["search_wide"])
    graph.add_edge("search_wide", "answer")
    graph.add_edge("answer", END)
    return graph


def main(corpus: str) -> None:
    """Ask two questions at once and print each answer with the nodes that ran for it."""
    questions = ["In which year was Oak Mill founded?", "Who started the Sawle Ferry?"]
    with Server(generator="reader", index=corpus) as server:
        for question, answer in zip(questions, server.app(when()).batch(questions), strict=True):
            nodes = dict.fromkeys(span.node for span in answer.receipt.spans)
            print(question, "-", answer.text, "-", " > ".join(nodes))


if __name__ == "__main__":
    main(sys.argv[1])
