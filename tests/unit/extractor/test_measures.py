import numpy as np
import pytest
from extractor_training.measures import auroc, oracle_measures, quotes, retrieved_measures
from extractor_training.word_index import WordIndex

from tests.helpers.small_extractor import lessons, small_model


def test_auroc_is_the_share_of_pairs_in_order():
    assert auroc(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0
    assert auroc(np.array([1.0]), np.array([0.0, 1.0, 2.0, 3.0])) == pytest.approx(1.5 / 4)
    assert auroc(np.array([]), np.array([1.0])) == 0.5


def test_a_quote_is_a_part_of_its_passage(tokenizer):
    pairs = [(one.row.question, one.row.passage) for one in lessons()]
    found = quotes(small_model(), tokenizer, pairs)
    assert all(quote.text in passage.text for quote, (_, passage) in zip(found, pairs, strict=True))


def test_a_quote_does_not_depend_on_what_is_asked_beside_it(tokenizer):
    pairs = [(one.row.question, one.row.passage) for one in lessons()]
    model = small_model()
    alone = [quotes(model, tokenizer, [pair])[0] for pair in pairs]
    for one, other in zip(alone, quotes(model, tokenizer, pairs), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=0.05)  # bfloat16


def test_every_measure_is_a_share(tokenizer):
    rows = [one.row for one in lessons()]
    index = WordIndex([row.passage for row in rows], [row.question for row in rows])
    found = oracle_measures(small_model(), tokenizer, rows)
    found |= retrieved_measures(small_model(), tokenizer, rows, index)
    found.pop("threshold_at_95")
    assert all(0 <= value <= 1 for value in found.values())
