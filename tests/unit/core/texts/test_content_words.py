"""Which words of a text carry its subject."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.core.texts.content_words import WITHOUT_SUBJECT, WORD, content_words, stem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What does the option --index-kind do?", ("option", "index", "kind")),
        ("And how long does it take?", ("long", "take")),
        ("Why is that?", ()),
        ("Is vitamin C in 3 of the lemons or lemon?", ("vitamin", "C", "3", "lemons")),
        ("Wer gründete Zürich?", ("Wer", "gründete", "Zürich")),
        ("東京の天気", ("東京の天気",)),
        ("", ()),
    ],
)
def test_common_words_say_nothing(text: str, words: tuple[str, ...]):
    assert content_words(text) == words


@given(st.text(max_size=200))
def test_each_word_stands_in_the_text_once(text: str):
    words = content_words(text)
    assert set(words) <= set(WORD.findall(text))
    assert len({stem(word) for word in words}) == len(words)
    assert not {word.lower() for word in words} & WITHOUT_SUBJECT


@pytest.mark.parametrize(
    ("one", "many"),
    [("index", "indexes"), ("query", "queries"), ("lane", "lanes"), ("match", "matches")],
)
def test_a_plural_has_the_stem_of_its_word(one: str, many: str):
    assert stem(one) == stem(many.upper())


@pytest.mark.parametrize("word", ["class", "status", "bus", "is"])
def test_an_s_that_is_no_ending_stays(word: str):
    assert stem(word) == word
