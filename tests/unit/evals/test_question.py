from hypothesis import given
from hypothesis import strategies as st

from heddle.evals.question import given_passage, is_gold

TEXTS = st.text(max_size=5)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_equal_text_has_one_chunk_id_whatever_it_is_called(title, text, other_title, other_text):
    one, other = given_passage("a", title, text), given_passage("b", other_title, other_text)
    is_same = (title, text) == (other_title, other_text)
    assert (one.chunk_id == other.chunk_id) == is_same
    assert 0 <= one.chunk_id < 2**63


def test_gold_is_a_document_or_one_chunk_of_it():
    passage = given_passage("d", "t", "x", position=2)
    assert is_gold(passage, ("other", "d"))
    assert is_gold(passage, ("d#2",))
    assert not is_gold(passage, ("d#1",))
