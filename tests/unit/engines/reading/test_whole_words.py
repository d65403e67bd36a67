"""Quotes end where words and identifiers end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.reading.whole_words import whole_words, without_half_pairs


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


@pytest.mark.parametrize(
    ("text", "quote", "bare"),
    [
        ("Default: `2`", "2`", "2"),
        ("- `USR1` reopens", "`USR1", "USR1"),
        ("named ``memmon`` which", "``memmon", "memmon"),
        ("named ``memmon`` which", "memmon`", "memmon"),
        ('"--timeout", "120"', '120"', "120"),
        ("needs **4 workers** each", "**4 workers", "4 workers"),
        ("named ``memmon`` which", "``memmon``", "``memmon``"),
        ("`TTIN` or `TTOU`", "`TTIN` or `TTOU", "`TTIN` or `TTOU"),
        ('a pipe of 5" fits', '5"', '5"'),
        ("a `` b", "`", "`"),
    ],
)
def test_a_mark_without_its_partner_goes(text: str, quote: str, bare: str) -> None:
    start = text.index(quote)
    start, end = without_half_pairs(text, start, start + len(quote))
    assert text[start:end] == bare


@given(st.text('ab`"* ', max_size=20), st.data())
def test_no_mark_goes_but_at_the_ends(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    bare_start, bare_end = without_half_pairs(text, start, end)
    assert start <= bare_start <= bare_end <= end
    assert not (text[start:bare_start] + text[bare_end:end]).strip('`"*')
    assert text[bare_start:bare_end] or start == end


@given(st.text("ab_-. ", max_size=30), st.data())
def test_a_whole_quote_holds_the_quote_and_stays_as_it_is(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    wide_start, wide_end = whole_words(text, start, end)
    assert 0 <= wide_start <= start <= end <= wide_end <= len(text)
    assert whole_words(text, wide_start, wide_end) == (wide_start, wide_end)
