"""Quotes that cut a word, an identifier or a pair of marks, made whole."""

import re
from typing import Final

# Words, and words joined by one of these without blanks: max_iter, os.path, --log-level, 3.5
_WORD: Final = re.compile(r"\w+(?:[-_.]\w+)*")
# Marks that stand before and behind a word: `code`, "words", *stress*
_MARKS: Final = '`"*'


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


def without_half_pairs(text: str, start: int, end: int) -> tuple[int, int]:
    """Return characters [start, end) of a text without a mark whose partner they leave out.

    Of the text "Default: `2`" both "2`" and "`2" become "2". A pair that is inside stays, and so
    does a mark without a partner beside the quote, as in 5" for five inches.
    """
    for mark in _MARKS:
        quote = text[start:end]
        words = quote.strip(mark)
        is_cut_behind = quote.startswith(mark) and text[end : end + 1] == mark
        is_cut_before = quote.endswith(mark) and text[max(0, start - 1) : start] == mark
        if words and mark not in words and (is_cut_behind or is_cut_before):
            start += len(quote) - len(quote.lstrip(mark))
            end = start + len(words)
    return start, end
