import pytest
from extractor_training.manuals import manual_rows

ROWS = manual_rows(seed=0)
if not ROWS:
    pytest.skip("scikit-learn isn't installed", allow_module_level=True)


def test_each_answer_stands_where_its_span_says():
    for row, _ in ROWS:
        assert row.spans
        assert all(
            row.passage.text[start:end].lower() == row.answers[0].strip().lower()
            for start, end in row.spans
        )


def test_the_other_passages_are_of_the_same_class_and_others():
    for row, others in ROWS:
        assert all(other.title == row.passage.title for other in others)
        assert row.passage not in others


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows():
    assert manual_rows(seed=0) == ROWS
