import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.metrics.normalized_text import normalized_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" The  Old\nMill. ", "old mill"),
        ("an apple a day", "apple day"),
        ("A.I.", "ai"),  # punctuation goes before articles do, as in SQuAD's script
        ("a.n", ""),
        ("“Über”", "“über”"),  # only ASCII punctuation goes
    ],
)
def test_squad_normalisation(text, expected):
    assert normalized_text(text) == expected


@given(st.text(alphabet="thea nBC.,12"))
def test_single_spaces_and_no_punctuation(text):
    found = normalized_text(text)
    assert found == " ".join(found.split())
    assert not set(found) & set(".,")
