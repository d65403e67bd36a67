"""The workflows that ask the LLM itself, without a search: a conversation, and a text to go on."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow
from heddle.workflow.writing import SEED_MAX

TURNS: Final = "turns"
TEXT: Final = "text"
CHAT_TOKENS: Final = 512  # bounds a model that doesn't end its answer by itself
TEXT_TOKENS: Final = 16  # as OpenAI's completions have it


@cache
def chat_workflow() -> Workflow:
    """Return the workflow of a conversation; its one input `turns` is a ChatTurns."""
    return _of_one_input("chat", TURNS, CHAT_TOKENS)


@cache
def completion_workflow() -> Workflow:
    """Return the workflow that goes on with a text; its one input `text` is a BareText."""
    return _of_one_input("completion", TEXT, TEXT_TOKENS)


def drawn(writing: Mapping[str, Any], temperature: float | None) -> dict[str, Any]:
    """Return how an answer is written; tokens that are drawn are drawn anew each time.

    Args:
        writing: what a request says of it, as keywords of `Server.submit`.
        temperature: the server's, where the request says none.
    """
    is_drawn = writing.get("temperature", temperature)
    if is_drawn and "seed" not in writing:
        return {**writing, "seed": secrets.randbelow(SEED_MAX)}
    return dict(writing)


def _of_one_input(name: str, slot: str, tokens: int) -> Workflow:
    graph = RAGraph(name, inputs=(slot,))
    graph.add_generation("answer", f"{{{slot}}}", output="answer", max_tokens=tokens)
    return replace(graph.compile(), inputs=frozenset({slot}))  # there is no question beside it
