"""Files of other people's formats, by what is in them."""

import pytest

from heddle.core.errors import InputError
from heddle.evals.catalogue import load_dataset
from tests.unit.evals.data_files import write_document, write_lines

CONTEXT = "Passage 1:\nPortugal\nThe capital is Lisbon.\n\nPassage 2:\nSpain\nMadrid.\nIt is big.\n"
LONGBENCH = {
    "_id": "x1",
    "input": "What is the capital?",
    "context": CONTEXT,
    "answers": ["Lisbon", "Lisbon"],
    "dataset": "hotpotqa",
    "length": 9,
}
CACHEBLEND = {
    "ctxs": [{"title": "Portugal", "text": "The capital is Lisbon."}, {"text": "untitled"}],
    "question": "What is the capital?",
    "answers": ["Lisbon"],
}
NOTES = {
    "kind": "two_hop",
    "passages": [
        {"title": "Portugal", "text": "The capital is Lisbon."},
        {"id": "p7", "text": "More.", "gold": True},
    ],
    "question": "What is the capital?",
    "answers": ["Lisbon"],
}


def squad(**change):
    question = {"id": "s1", "question": "What?", "answers": [{"text": "x", "answer_start": 0}]}
    paragraph = {"context": "x is what.", "qas": [question | change]}
    return {"version": "2.0", "data": [{"title": "Things", "paragraphs": [paragraph]}]}


def texts(question):
    return [(p.title, p.text) for p in question.passages]


def test_longbench(tmp_path):
    dataset = load_dataset(str(write_lines(tmp_path / "hotpotqa.jsonl", [LONGBENCH])))
    (question,) = dataset.questions
    assert texts(question) == [
        ("Portugal", "The capital is Lisbon."),
        ("Spain", "Madrid.\nIt is big."),
    ]
    assert (question.id, question.kind, question.answers) == ("x1", "hotpotqa", ("Lisbon",))
    assert not dataset.is_graded_by_kind


def test_longbench_without_marks_is_one_passage(tmp_path):
    row = LONGBENCH | {"context": "One long paper. Passage 1: is named in it."}
    (question,) = load_dataset(str(write_lines(tmp_path / "q.jsonl", [row]))).questions
    assert texts(question) == [("", row["context"])]


def test_longbench_sets_without_questions_are_refused(tmp_path):
    path = write_lines(tmp_path / "gov_report.jsonl", [LONGBENCH | {"input": ""}])
    with pytest.raises(InputError, match=r"gov_report.jsonl, line 1: field 'input' is empty"):
        load_dataset(str(path))


def test_cacheblend(tmp_path):
    dataset = load_dataset(str(write_document(tmp_path / "musique_s.json", [CACHEBLEND] * 2)))
    assert [question.id for question in dataset.questions] == ["musique_s-1", "musique_s-2"]
    assert texts(dataset.questions[0]) == [
        ("Portugal", "The capital is Lisbon."),
        ("", "untitled"),
    ]


def test_cacheblend_names_the_bad_field(tmp_path):
    bad = CACHEBLEND | {"ctxs": [{"title": "no text"}]}
    path = write_document(tmp_path / "bad.json", [CACHEBLEND, bad])
    with pytest.raises(InputError, match=r"item 1, field 'ctxs'\[0\]: field 'text' must be"):
        load_dataset(str(path))


def test_squad(tmp_path):
    answers = [{"text": "x"}, {"text": "what"}, {"text": "x"}]
    (question,) = load_dataset(
        str(write_document(tmp_path / "dev.json", squad(answers=answers)))
    ).questions
    assert question.answers == ("x", "what")
    assert texts(question) == [("Things", "x is what.")]
    assert question.gold == (("Things#0",),)
    assert question.passages[0].document_id == "Things#0"


def test_squad_questions_without_an_answer(tmp_path):
    path = write_document(tmp_path / "dev.json", squad(answers=[], is_impossible=True))
    (question,) = load_dataset(str(path)).questions
    assert (question.answers, question.kind) == (("not in the notes",), "impossible")
    path = write_document(tmp_path / "dev.json", squad(answers=[]))
    with pytest.raises(InputError, match=r"field 'qas'\[0\]: field 'answers' must have at least"):
        load_dataset(str(path))


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.jsonl.gz"])
def test_questions_with_passages(tmp_path, name):
    dataset = load_dataset(str(write_lines(tmp_path / name, [NOTES])))
    (question,) = dataset.questions
    assert (question.id, question.kind) == ("notes-1", "two_hop")
    assert [p.document_id for p in question.passages] == ["notes-1/0", "p7"]
    assert question.gold == (("p7",),)
    assert dataset.is_graded_by_kind
    other = load_dataset(str(write_lines(tmp_path / name, [NOTES, NOTES | {"kind": "mine"}])))
    assert not other.is_graded_by_kind


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": []}, "'answers' must have at least one"),
        ({"answers": "Lisbon"}, "'answers' must be a list of strings"),
        ({"question": " "}, "'question' is empty"),
        ({"passages": ["text"]}, "'passages' must be a list of objects"),
        ({"kind": 3}, "'kind' must be a string"),
    ],
)
def test_a_bad_field_is_named(tmp_path, change, message):
    path = write_lines(tmp_path / "mine.jsonl", [NOTES, NOTES | change])
    with pytest.raises(InputError, match=rf"mine\.jsonl, line 2: field {message}"):
        load_dataset(str(path))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("one.json", {"rows": []}, 'must be a list of questions, or an object with a field "data"'),
        ("two.json", [{"q": 1}], "item 0: has none of these fields: ctxs"),
        ("three.json", [], "holds no questions"),
    ],
)
def test_other_files_are_refused(tmp_path, name, value, message):
    with pytest.raises(InputError, match=message):
        load_dataset(str(write_document(tmp_path / name, value)))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="'squid' is no file and none of reader-notes, wiki_sing"):
        load_dataset("squid")
