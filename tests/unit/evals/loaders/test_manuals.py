from collections import Counter

import pytest

from heddle.core.errors import InputError
from heddle.corpus.chunking import Chunking, chunk_document
from heddle.corpus.document import Document
from heddle.evals import catalogue
from heddle.evals.catalogue import load_dataset
from heddle.evals.loaders.manuals import (
    FIGURE,
    PARTS,
    TUNING,
    UNANSWERABLE,
    questions_file,
    read_manuals,
)
from heddle.evals.manuals.library import manual_pages
from heddle.evals.manuals.page import ManualPage
from heddle.evals.metrics.quotes import holds
from heddle.evals.row import json_lines
from tests.unit.evals.data_files import write_lines

PAGES = (ManualPage("mill.md", "# Mill\n\nThe mill grinds\n  at most 9 sacks an hour."),)
GRINDS = {
    "id": "m1",
    "part": TUNING,
    "kind": "limit",
    "question": "How much does the mill grind?",
    "answers": ["9 sacks"],
    "page": "mill.md",
    "evidence": "grinds at most",
}
OWNER = GRINDS | {
    "id": "m2",
    "kind": UNANSWERABLE,
    "question": "Who owns the mill?",
    "answers": [],
    "absent": ["owner", "belongs"],
}
PER_CHUNK_MAX = 0.03  # an answer that stands in more of the chunks could be quoted by luck


def read(tmp_path, *rows, part=TUNING, pages=PAGES):
    return read_manuals(write_lines(tmp_path / "q.jsonl", rows), pages, part)


def test_questions_with_and_without_an_answer(tmp_path):
    found = read(tmp_path, GRINDS, OWNER, GRINDS | {"part": FIGURE})
    assert [(one.id, one.answers, one.kind) for one in found.asked] == [
        ("m1", ("9 sacks",), "limit"),
        ("m2", (), UNANSWERABLE),
    ]
    assert found.skipped == ()


def test_what_the_pages_at_hand_do_not_decide_is_left_out_with_its_reason(tmp_path):
    found = read(
        tmp_path,
        GRINDS | {"id": "gone", "page": "tower.md"},
        GRINDS | {"id": "reworded", "evidence": "grinds up to"},
        OWNER | {"id": "answered", "absent": ["sacks an hour"]},
        GRINDS,
    )
    assert [one.id for one in found.asked] == ["m1"]
    assert found.skipped == (
        "gone: tower.md is not installed",
        "reworded: mill.md doesn't say 'grinds up to' here",
        "answered: mill.md speaks of 'sacks an hour' here",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": "half"}, "'part' must be tuning or figure"),
        ({"answers": []}, "'answers' must have at least one"),
        ({"evidence": " "}, "'evidence' is empty"),
        ({"kind": UNANSWERABLE}, "'absent' must be a list of strings"),
    ],
)
def test_a_bad_field_is_named(tmp_path, change, message):
    with pytest.raises(InputError, match=rf"q\.jsonl, line 1: field {message}"):
        read(tmp_path, GRINDS | change)


def test_there_are_120_questions_half_of_them_for_tuning():
    rows = [row.fields for row in json_lines(questions_file())]
    assert len({row["id"] for row in rows}) == len({row["question"] for row in rows}) == 120
    kinds = Counter((row["part"], row["kind"] == UNANSWERABLE) for row in rows)
    assert kinds == {(part, is_open): 15 if is_open else 45 for part in PARTS for is_open in (0, 1)}


@pytest.fixture(scope="module")
def pages():
    return manual_pages()


@pytest.mark.slow
def test_this_python_carries_what_is_asked_about(pages):
    found = [read_manuals(questions_file(), pages, part) for part in PARTS]
    skipped = [line for one in found for line in one.skipped]
    # Other versions of Python and of pip word some things otherwise.
    assert len(skipped) <= 24, skipped


def stands(text, answer):
    return answer.split()[0] in text and holds(text, answer)  # the first test is quick


@pytest.mark.slow
def test_an_answer_is_rarely_quoted_by_luck(pages):
    documents = [Document(p.name, p.name, p.text, p.name, p.name.endswith(".md")) for p in pages]
    chunks = [chunk.text for one in documents for chunk in chunk_document(one, Chunking())]
    asked = [one for part in PARTS for one in read_manuals(questions_file(), pages, part).asked]
    for question in (one for one in asked if one.answers):
        count = sum(any(stands(text, answer) for answer in question.answers) for text in chunks)
        assert 0 < count <= PER_CHUNK_MAX * len(chunks), question


@pytest.mark.slow
def test_the_data_set_brings_the_folder_to_index(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "manual_pages", lambda: pages)
    monkeypatch.setenv("HEDDLE_CACHE", str(tmp_path))
    dataset = load_dataset("manuals")
    assert dataset.folder is not None
    assert (dataset.folder / "json.md").is_file()
    assert len(dataset.questions) + len(dataset.skipped) == 60
    tuning = load_dataset("manuals_tuning")
    assert tuning.folder == dataset.folder
    assert {q.id for q in tuning.questions} & {q.id for q in dataset.questions} == set()
