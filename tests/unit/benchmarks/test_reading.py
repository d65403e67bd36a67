"""What the reading benchmark reads, and how rows become its headline."""

import pytest

from benchmarks import reading
from benchmarks.reading import CHARS_MAX, PASSAGES, _ratio, questions
from heddle.core.errors import InputError


def test_without_the_data_passages_are_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise InputError(f"no data file {name}")

    monkeypatch.setattr(reading, "data_rows", missing)
    asked, source = questions(3, 4)
    assert source == "generated"
    assert asked == questions(3, 4)[0] != questions(4, 4)[0]
    assert [len(texts) for _, texts in asked] == [PASSAGES] * 4


def test_passages_of_the_data_are_one_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = [{"id": f"p{n}", "title": "t", "text": "x" * n} for n in range(1195, 1210)]
    single = [{"question": f"q{n}", "gold": [f"p{n}"]} for n in range(1195, 1210)]
    monkeypatch.setattr(
        reading, "data_rows", {"wiki_corpus": corpus, "wiki_single": single}.__getitem__
    )
    asked, source = questions(0, 6)
    assert source == "wiki_corpus"
    assert all(len(text.text) <= CHARS_MAX for _, texts in asked for text in texts)
    assert {question for question, _ in asked} == {f"q{n}" for n in range(1195, 1201)}
    assert all(question[1:] == str(len(texts[0].text)) for question, texts in asked)


def test_the_headline_compares_with_the_best_other() -> None:
    times = {"heddle": 4.0, "transformers 1": 9.0, "transformers 8": 6.0}
    rows: list[dict[str, object]] = [
        {"contender": name, "ms_a_passage": ms} for name, ms in times.items()
    ]
    assert _ratio(rows) == 1.5
