import pytest

from heddle.core.errors import InputError
from heddle.evals.catalogue import load_dataset
from heddle.evals.loaders import offered

ROW = {
    "kind": "coreference",
    "passages": [{"title": "t", "text": "x"}],
    "question": "What?",
    "answers": ["x"],
}


class Entry:
    name = "reader-notes"

    def __init__(self, rows):
        self.rows = rows

    def load(self):
        return lambda: self.rows


def test_reader_notes_come_from_an_installed_distribution(monkeypatch):
    rows = iter([ROW, ROW | {"kind": "two_hop"}])
    monkeypatch.setattr(offered, "entry_points", lambda group: [Entry(rows)])
    dataset = load_dataset("reader-notes")
    assert [question.kind for question in dataset.questions] == ["coreference", "two_hop"]
    assert [question.id for question in dataset.questions] == ["reader-notes-1", "reader-notes-2"]
    assert dataset.is_graded_by_kind


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(offered, "entry_points", lambda group: [])
    with pytest.raises(InputError, match=r"pip install \./models/reader"):
        load_dataset("reader-notes")


def test_a_bad_row_is_named(monkeypatch):
    rows = [ROW, {"question": "What?"}]
    monkeypatch.setattr(offered, "entry_points", lambda group: [Entry(rows)])
    with pytest.raises(InputError, match="reader-notes, item 1: field 'passages'"):
        load_dataset("reader-notes")
