"""Answers that quote: whether a quoted sentence holds an accepted answer."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from heddle.evals.question import EvalQuestion


class QuotedAnswer(NamedTuple):
    """A quote as a user sees it: the sentence, and the words of it that answer."""

    sentence: str
    span: str


class Reply(NamedTuple):
    """What came of a question: quotes, best first (none = not found), and the passages' texts."""

    question: EvalQuestion
    quotes: Sequence[QuotedAnswer]
    passages: Sequence[str]


def right_quote(reply: Reply, first: int = 1) -> float | None:
    """Return 1.0 if one of the first quoted sentences holds an accepted answer, else 0.0.

    None = the question has no answer.
    """
    return _found([quote.sentence for quote in reply.quotes[:first]], reply.question.answers)


def right_span(reply: Reply) -> float | None:
    """Return 1.0 if the words of the first quote hold an accepted answer, else 0.0."""
    return _found([quote.span for quote in reply.quotes[:1]], reply.question.answers)


def in_passages(reply: Reply) -> float | None:
    """Return 1.0 if an accepted answer stands in a passage, else 0.0; None = there is no answer."""
    return _found(reply.passages, reply.question.answers)


def invented(reply: Reply) -> float | None:
    """Return 1.0 if a question without an answer got a quote, else 0.0; None = it has an answer."""
    return None if reply.question.answers else float(bool(reply.quotes))


def declined(reply: Reply) -> float | None:
    """Return 1.0 if a question with an answer got no quote, else 0.0; None = it has no answer."""
    return float(not reply.quotes) if reply.question.answers else None


def holds(text: str, answer: str) -> bool:
    """Whether an answer stands in a text as a whole: "--indent" is not in "--indent-size".

    Capitals count, runs of white space don't, and neither does punctuation that follows: "-i" and
    "-I" are two options, "json" is not in "json.tool", "1" is not in "0.1" or "-1".
    """
    words = " ".join(answer.split())
    before = after = ""
    if words[:1].isalnum() or words[:1] == "_":
        before = r"(?<!\w)"
    if words[:1].isdigit():
        before = r"(?<!\w)(?<!\d\.)(?<![^\w\s]-)(?<!\s-)(?<!^-)"
    if words[-1:].isalnum() or words[-1:] == "_":
        after = r"(?!\w|[.\-]\w)"
    return re.search(before + re.escape(words) + after, " ".join(text.split())) is not None


def _found(texts: Sequence[str], answers: Sequence[str]) -> float | None:
    if not answers:
        return None
    return float(any(holds(text, answer) for text in texts for answer in answers))
