import pytest
from extractor_training.whole_words import whole_words


@pytest.mark.parametrize(
    ("text", "quote", "wanted"),
    [
        ("set max_iter to 300", "iter", "max_iter"),
        ("the --log-level option", "log", "log-level"),
        ("since 3.5 or so", "3", "3.5"),
        ("It ends. Then more", "ends", "ends"),
        ("the catalogue", "cat", "catalogue"),
        ("a well-known name", "a well", "a well-known"),
        ("in 1978 (again)", "1978", "1978"),
    ],
)
def test_a_cut_word_is_made_whole(text, quote, wanted):
    start = text.index(quote)
    left, right = whole_words(text, (start, start + len(quote)))
    assert text[left:right] == wanted
