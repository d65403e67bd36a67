"""Where accepted answers stand in a text."""

import re
from collections.abc import Iterable

Span = tuple[int, int]  # characters [start, end)


def answer_spans(text: str, answers: Iterable[str]) -> list[Span]:
    """Return all spans of accepted answers, ignoring case; not those inside a longer word."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters change length with case, and all spans with them
        lowered = text
    found: set[Span] = set()
    for answer in answers:
        wanted = answer.strip().lower()
        if wanted:
            spans = (match.span() for match in re.finditer(re.escape(wanted), lowered))
            found.update(span for span in spans if _stands_alone(lowered, *span))
    return sorted(found)


def holds_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether an accepted answer stands in a text."""
    return bool(answer_spans(text, answers))


def _stands_alone(text: str, start: int, end: int) -> bool:
    joined_before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
    joined_after = end < len(text) and text[end].isalnum() and text[end - 1].isalnum()
    return not (joined_before or joined_after)
