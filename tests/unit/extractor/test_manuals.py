import pytest
from extractor_training.manuals import manual_rows


@pytest.fixture(scope="module")
def rows():
    return manual_rows(seed=0) or pytest.skip("scikit-learn isn't installed")


def test_each_answer_stands_where_its_span_says(rows):
    for row, _ in rows:
        assert row.spans
        assert all(
            row.passage.text[start:end].lower() == row.answers[0].strip().lower()
            for start, end in row.spans
        )


def test_the_other_passages_are_of_the_same_class_and_others(rows):
    for row, others in rows:
        assert all(other.title == row.passage.title for other in others)
        assert row.passage not in others


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(rows):
    assert manual_rows(seed=0) == rows
