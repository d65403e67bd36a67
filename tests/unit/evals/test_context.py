import pytest

from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.evals.context import Context, cases_for, given_passages, sample
from heddle.evals.dataset import Dataset
from tests.unit.evals.answering import LISBON, PORTO, question
from tests.unit.evals.data_files import write_lines

OWN = question(passages=(LISBON, PORTO), gold=(("d2",),))
OPEN = question("q2", gold=(("d1", "d1-again"),))


def test_the_given_workflow_takes_the_question_and_its_passages():
    workflow = given_passages().compile()
    (case,) = cases_for(Dataset("x", (OWN,)), (OWN,), Context.OWN)
    assert workflow.inputs == set(case.inputs) == {"query", "docs"}
    assert all(isinstance(passage, Passage) for passage in case.inputs["docs"])


def test_own_oracle_and_retrieved_passages():
    dataset = Dataset("x", (OWN,))
    given = [cases_for(dataset, (OWN,), context)[0].passages for context in Context]
    assert given == [None, (LISBON, PORTO), (PORTO,)]
    assert cases_for(dataset, (OWN,), Context.RETRIEVED)[0].inputs == {"query": OWN.question}


def test_oracle_passages_come_from_the_corpus_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_DATA", str(tmp_path))
    rows = [{"id": p.document_id, "title": p.title, "text": p.text} for p in (LISBON, PORTO)]
    write_lines(tmp_path / "tiny.jsonl.gz", rows)
    (case,) = cases_for(Dataset("x", (OPEN,), "tiny"), (OPEN,), Context.ORACLE)
    assert case.passages == (LISBON,)


@pytest.mark.parametrize(
    ("asked", "context", "message"),
    [
        (OPEN, Context.OWN, "--index DIR, or use --oracle-passage"),
        (question(), Context.OWN, "name an index with --index DIR$"),
        (question(), Context.ORACLE, "nobody marked the gold passages of x"),
        (OPEN, Context.ORACLE, "in no corpus file"),
    ],
)
def test_what_a_data_set_lacks_is_said(asked, context, message):
    with pytest.raises(InputError, match=message):
        cases_for(Dataset("x", (asked,)), (asked,), context)


def test_samples_are_seeded_and_in_order():
    dataset = Dataset("x", tuple(question(f"q{i}") for i in range(50)))
    one = sample(dataset, 10, 0)
    assert one == sample(dataset, 10, 0)
    assert one != sample(dataset, 10, 1)
    assert len(set(one)) == 10
    assert list(one) == [q for q in dataset.questions if q in one]
    assert sample(dataset, None, 0) == sample(dataset, 99, 0) == dataset.questions
    with pytest.raises(InputError, match="at least 1"):
        sample(dataset, 0, 0)
