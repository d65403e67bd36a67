import json

import pytest

from heddle.evals.dataset import Dataset
from heddle.evals.record import headline, kind_record, row_record
from heddle.evals.scores import scores_by_kind
from tests.unit.evals.answering import LISBON, question, scored

MANY = [
    scored("Lisbon", question("q1", kind="two_hop"), (LISBON,)),
    scored(None, question("q2", kind="two_hop")),
    scored("Lisbon", question("q3", kind="single_hop"), (LISBON,)),
]
KINDS = scores_by_kind(MANY, seed=0)


def test_the_headline_of_a_set_graded_by_kind_is_shares():
    found = headline(Dataset("reader-notes", (), is_graded_by_kind=True), KINDS)
    assert found == {"single_hop": 1.0, "two_hop": 0.5}


def test_the_headline_of_another_set_is_its_defined_means():
    found = headline(Dataset("x", ()), KINDS)
    assert found["exact_match"] == pytest.approx(2 / 3)
    assert (found["questions"], found["failed"], found["word_overlap"]) == (3, 1, 1.0)
    assert "recall" not in found


def test_rows_and_kinds_are_json():
    rows = json.loads(json.dumps([row_record(one) for one in MANY]))
    assert rows[0]["passages"] == ["d1"]
    assert (rows[1]["answer"], rows[1]["error"]) == (None, "lane lost")
    assert rows[0]["prompt_tokens"] == 7
    kinds = [json.loads(json.dumps(kind_record(one))) for one in KINDS]
    assert kinds[1]["means"]["exact_match"]["mean"] == 0.5
    assert kinds[1]["failed"] == 1
