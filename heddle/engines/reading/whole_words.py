"""Quotes that cut a word or an identifier, made whole."""

import re
from typing import Final

# Words, and words joined by one of these without blanks: max_iter, os.path, --log-level, 3.5
_WORD: Final = re.compile(r"\w+(?:[-_.]\w+)*")


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return characters [start, end) of a text, widened to the words that they cut."""
    wide_start, wide_end = start, end
    for word in _WORD.finditer(text):
        if word.start() >= end:
            break
        if word.start() < start < word.end():
            wide_start = word.start()
        if word.start() < end < word.end():
            wide_end = word.end()
    return wide_start, wide_end
