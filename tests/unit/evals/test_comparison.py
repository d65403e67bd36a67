import pytest

from heddle.core.errors import InputError
from heddle.evals.comparison import differences, normalized_f1_of, read_run, require_comparable
from heddle.evals.record import row_record
from tests.unit.evals.answering import question, scored
from tests.unit.evals.data_files import write_document

ASKED = [question(f"q{i}") for i in range(8)]
ASKS_OTHER = question("q1", asks="What is the capital of Peru?")


def run_file(path, texts, dataset="x"):
    rows = [row_record(scored(text, one)) for text, one in zip(texts, ASKED, strict=False)]
    return read_run(write_document(path, {"settings": {"dataset": dataset}, "rows": rows}))


def test_pairs_by_question_and_leaves_out_what_one_side_lacks(tmp_path):
    earlier = run_file(tmp_path / "a.json", ["Lisbon", "Porto", "Porto", "yes"])
    here = [scored(text, one) for text, one in zip(["Lisbon"] * 5, ASKED, strict=False)]
    found = {one.metric: one for one in differences(here, earlier, seed=0)}
    exact = found["exact_match"]
    assert (exact.here.mean, exact.there.mean, exact.difference.mean) == (1.0, 0.25, 0.75)
    assert exact.difference.count == 4
    assert exact.is_clear
    assert found["word_overlap"].difference.count == 3  # "yes" claims nothing
    assert "recall" not in found


def test_a_run_against_itself_differs_in_nothing(tmp_path):
    texts = ["Lisbon", "Porto"] * 4
    here = [scored(text, one) for text, one in zip(texts, ASKED, strict=True)]
    found = differences(here, run_file(tmp_path / "a.json", texts), seed=0)
    assert found
    assert all(one.difference.low == one.difference.high == 0.0 for one in found)
    assert not any(one.is_clear for one in found)


def test_normalized_f1_over_the_questions_of_all_three(tmp_path):
    full = run_file(tmp_path / "full.json", ["Lisbon"] * 8)
    reuse = run_file(tmp_path / "reuse.json", ["Porto"] * 7)
    texts = ["Lisbon"] * 4 + ["Porto"] * 4
    here = [scored(text, one) for text, one in zip(texts, ASKED, strict=True)]
    found = normalized_f1_of(here, full, reuse, seed=0)
    assert found.share.mean == pytest.approx(4 / 7)
    assert found.share.count == 7
    assert found.is_stable
    assert normalized_f1_of([scored("x", question("other"))], full, reuse, seed=0) is None


@pytest.mark.parametrize(
    ("dataset", "questions", "message"),
    [
        ("y", ASKED, "is a run of 'x', not of 'y'"),
        ("x", [question("other")], "has none of these questions"),
        ("x", [ASKS_OTHER], r"question 'q1' asks 'What is the capital\?', here it asks"),
    ],
)
def test_runs_of_different_data_are_refused(tmp_path, dataset, questions, message):
    earlier = run_file(tmp_path / "a.json", ["Lisbon"] * 3)
    require_comparable(earlier, "x", ASKED)
    with pytest.raises(InputError, match=message):
        require_comparable(earlier, dataset, questions)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is no result of heddle eval"),
        ({"rows": []}, "field 'settings'"),
        ({"rows": [{"id": 1}], "settings": {"dataset": "x"}}, r"'rows'\[0\]: field 'id'"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_run(write_document(tmp_path / "a.json", content))
