"""Where the programs of `heddle bench adapters` find their model, their index and Heddle."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TOPK = 3
ANSWER_TOKENS = 24
PASSAGE_TOKENS = 32
TRIES_MAX = 2
IMAGINE = "Write a short passage that could answer the question.\n\nQuestion: {question}"
ANSWER = "Answer the question from the notes.\n\n{notes}Question: {question}"
REWRITE = (
    "List the sub-questions needed to answer the question, one JSON string a line.\n\n"
    "Question: {question}"
)
UNKNOWN = "not in the notes"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a program is given.

    Args:
        llm_url: the OpenAI-like server of its model, with /v1.
        model: the model's name there.
        corpus: the directory of the corpus whose passages are shown.
        index: the folder of FAISS's index over their vectors.
        nprobe: lists that each search scans.
        heddle_url: the server that the changed program is given.
    """

    llm_url: str
    model: str
    corpus: str
    index: str
    nprobe: int
    heddle_url: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a program answers: its text, and the nodes that called the engine where it knows."""

    answer: str
    primitives_seen: tuple[str, ...] = ()


Ask = Callable[[str], Awaitable[Told]]
"""What a program's `program(setting)` returns: called with a question on the event loop."""


def note(title: str, text: str) -> str:
    """Return a passage as the prompts show it."""
    return f"## {title}\n{text}\n\n"
