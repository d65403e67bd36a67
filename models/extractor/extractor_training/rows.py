"""Questions with the passage that answers them."""

from dataclasses import dataclass

from .answer_spans import Span


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled piece of text; `key` tells it from all others."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A question, its accepted answers and its passage.

    spans: where the answer stands in the passage, as characters [start, end); none where the
        passage seems to answer and doesn't.
    """

    key: str
    source: str
    question: str
    answers: tuple[str, ...]
    passage: Passage
    spans: tuple[Span, ...]
