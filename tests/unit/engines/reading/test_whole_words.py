"""Quotes end where words and identifiers end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.reading.whole_words import whole_words


@pytest.mark.parametrize(
    ("text", "quote", "whole"),
    [
        ("set max_iter to 5", "iter", "max_iter"),
        ("use --log-level debug", "log", "log-level"),
        ("about 3.5 metres", "5", "3.5"),
        ("the harbours of Oslo", "harbour", "harbours"),
        ("the harbours of Oslo", "harbours of", "harbours of"),
        ("import os.path", "path", "os.path"),
        ("end.", "end", "end"),
        ("naïve café", "caf", "café"),
    ],
)
def test_a_cut_word_is_made_whole(text: str, quote: str, whole: str) -> None:
    start = text.index(quote)
    start, end = whole_words(text, start, start + len(quote))
    assert text[start:end] == whole


@given(st.text("ab_-. ", max_size=30), st.data())
def test_a_whole_quote_holds_the_quote_and_stays_as_it_is(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    wide_start, wide_end = whole_words(text, start, end)
    assert 0 <= wide_start <= start <= end <= wide_end <= len(text)
    assert whole_words(text, wide_start, wide_end) == (wide_start, wide_end)
