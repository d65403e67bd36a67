"""Spans that end inside a word or an identifier, made whole."""

import re

from .answer_spans import Span

# words, and words joined by one of these without blanks: max_iter, os.path, --log-level, 3.5
_WORD = re.compile(r"\w+(?:[-_.]\w+)*")


def whole_words(text: str, span: Span) -> Span:
    """Return the span widened to the words it cuts at its ends."""
    start, end = span
    for word in _WORD.finditer(text):
        if word.start() < span[0] < word.end():
            start = word.start()
        if word.start() < span[1] < word.end():
            end = word.end()
    return start, end
