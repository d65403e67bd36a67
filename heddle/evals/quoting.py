"""Workflows that quote: from passages that are given, and from a search without the answers."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from heddle.core.passages import Passage
from heddle.evals.context import ANSWERS, DOCS
from heddle.evals.metrics.retrieval import answer_in_passages
from heddle.evals.quoted import QUOTES
from heddle.workflow.presets import QUOTE_TOPK
from heddle.workflow.ragraph import RAGraph

FOUND_MAX: Final = 100  # of which passages are hidden until as many as ever are left


def given_quotes() -> RAGraph:
    """Return the workflow that quotes from passages it is given."""
    return RAGraph("given", inputs=(DOCS,)).add_extraction("quote", DOCS, QUOTES)


def hidden_answers() -> RAGraph:
    """Return the workflow that quotes from a search without the passages that answer.

    Its input `answers` holds the accepted answers. What is found and holds one of them is hidden,
    and the next best passages are read in its place: nothing is embedded again.
    """
    graph = RAGraph("hidden", inputs=(ANSWERS,))
    graph.add_retrieval("retrieve", "query", "found", topk=FOUND_MAX, allow_fewer=True, hybrid=True)
    graph.add_tool("hide", without_answers, ("found", ANSWERS), DOCS)
    return graph.add_extraction("quote", DOCS, QUOTES)


def without_answers(passages: Sequence[Passage], answers: Sequence[str]) -> tuple[Passage, ...]:
    """Return the best passages that hold none of these answers."""
    left = (passage for passage in passages if not answer_in_passages(answers, (passage,)))
    return tuple(islice(left, QUOTE_TOPK))
