"""The sentence around a quote: whole, within its paragraph, and of a bounded length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.texts.sentences import SENTENCE_CHARS_MAX, sentence_around

TEXT = "The cache holds 64 pages. Dr. Byrd set it to 32 in 1999! It\nwraps.\n\n- an item\n- another"


@pytest.mark.parametrize(
    ("quoted", "sentence"),
    [
        ("64", "The cache holds 64 pages."),
        ("32", "Dr. Byrd set it to 32 in 1999!"),
        ("wraps", "It\nwraps."),
        ("an item", "- an item"),
        ("64 pages. Dr.", "The cache holds 64 pages. Dr. Byrd set it to 32 in 1999!"),
        ("another", "- another"),
    ],
)
def test_a_quote_stands_in_its_sentence(quoted: str, sentence: str) -> None:
    start = TEXT.index(quoted)
    first, last = sentence_around(TEXT, start, start + len(quoted))
    assert TEXT[first:last] == sentence


def test_an_option_of_a_command_is_a_sentence_of_its_own() -> None:
    text = "options:\n  -h, --help  show this\n  --compact   no blanks\n              at all\n  -x"
    start = text.index("no blanks")
    first, last = sentence_around(text, start, start + 2)
    assert text[first:last] == "--compact   no blanks\n              at all"


def test_a_table_without_stops_is_cut_between_words() -> None:
    text = "word " * 1000
    first, last = sentence_around(text, 2500, 2504)
    assert 0 < last - first <= SENTENCE_CHARS_MAX
    assert first <= 2500 < 2504 <= last
    assert text[first - 1] == " "
    assert text[first:last].startswith("word")


def test_a_range_outside_of_the_text_is_refused() -> None:
    with pytest.raises(ValueError, match="no range"):
        sentence_around("short", 3, 9)


@given(st.text(alphabet="ab .!\n-A1", max_size=900), st.data())
def test_what_was_asked_for_is_always_inside(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    first, last = sentence_around(text, start, end)
    assert 0 <= first <= start <= end <= last <= len(text) or not text[start:end].strip()
    assert last - first <= max(SENTENCE_CHARS_MAX, end - start)
