"""Named data sets, from a data folder of a few lines."""

import pytest

from heddle.core.errors import InputError
from heddle.evals.catalogue import load_dataset
from heddle.evals.data_folder import data_directory, data_file
from heddle.evals.loaders.corpus import read_passages
from tests.unit.evals.data_files import write_lines

PAPER = " ".join(f"Sentence {i} has seven words in it." for i in range(60))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_DATA", str(tmp_path))

    def write(name, *rows):
        return write_lines(tmp_path / f"{name}.jsonl.gz", rows)

    return write


def test_the_folder_is_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HEDDLE_DATA", str(tmp_path))
    assert data_directory() == tmp_path
    with pytest.raises(InputError, match=r"wiki_single\.jsonl\.gz isn't there; set HEDDLE_DATA"):
        data_file("wiki_single")
    monkeypatch.setenv("HEDDLE_DATA", str(tmp_path / "gone"))
    with pytest.raises(InputError, match="gone isn't there; set HEDDLE_DATA"):
        data_directory()


def test_open_questions(folder):
    row = {"id": "n1", "dataset": "nq", "question": "What?", "answers": ["x"], "gold": ["a", "b"]}
    folder("mini_single", row)
    dataset = load_dataset("mini_single")
    assert dataset.questions[0].gold == (("a", "b"),)
    assert (dataset.corpus, dataset.questions[0].passages) == ("mini_corpus", None)
    folder("questions_only", {name: row[name] for name in ("id", "dataset", "question", "answers")})
    assert load_dataset("questions_only").questions[0].gold == ()


def test_multihop(folder):
    passages = [
        {"id": name, "title": name.upper(), "text": name, "gold": name != "b"} for name in "abc"
    ]
    folder(
        "mini_multihop",
        {
            "id": "h1",
            "dataset": "musique",
            "question": "Who?",
            "answers": ["x"],
            "passages": passages,
        },
    )
    (question,) = load_dataset("mini_multihop").questions
    assert (question.kind, question.gold) == ("musique", (("a",), ("c",)))


def test_medical_answers_are_the_gold_texts_in_order(folder):
    folder("med_corpus", {"id": "m1", "title": "A", "text": "one"}, {"id": "m2", "text": "two"})
    row = {"id": "q", "question": "What?", "qtype": "causes", "gold": ["m2", "m1"]}
    path = folder("med_single", row)
    (question,) = load_dataset("med_single").questions
    assert (question.answers, question.kind) == (("two one",), "causes")
    assert question.gold == (("m2",), ("m1",))
    folder("med_single", row | {"gold": ["m3"]})
    with pytest.raises(InputError, match=rf"{path.name}, line 1: field 'gold' names 'm3'"):
        load_dataset("med_single")


def test_documents_are_cut_and_their_spans_found(folder):
    at = PAPER.index("Sentence 41")
    asks = {"id": "q", "dataset": "tatqa", "question": "Which?", "answers": ["41", "7"], "doc": "d"}
    folder("docqa_docs", {"id": "d", "title": "Paper", "text": PAPER})
    folder(
        "docqa_single",
        asks | {"type": "span", "gold": [[at, at + 20]]},
        asks | {"type": "multi-span", "gold": [[at, at + 11], [0, 11]]},
    )
    one, both = load_dataset("docqa_single").questions
    by_name = {f"d#{p.position}": p.text for p in one.passages}
    assert len(by_name) > 1
    assert "Sentence 41" in by_name[one.gold[0][0]]
    assert len(one.gold) == 1
    assert [group[0] for group in both.gold] == ["d#0", one.gold[0][0]]
    assert both.requires_all_answers
    assert not one.requires_all_answers
    folder("docqa_single", asks | {"type": "span", "gold": [[0, 1]], "doc": "gone"})
    with pytest.raises(InputError, match=r"field 'doc' is not in .*docqa_docs"):
        load_dataset("docqa_single")


def test_the_two_sets_of_documents_can_be_asked_apart(folder):
    asks = {"question": "Which?", "answers": ["41"], "type": "span", "gold": [[0, 5]]}
    documents = ({"id": name, "title": name, "text": PAPER} for name in ("paper", "page"))
    folder("docqa_docs", *documents)
    folder(
        "docqa_single",
        asks | {"id": "c", "dataset": "covidqa", "doc": "paper"},
        asks | {"id": "t", "dataset": "tatqa", "doc": "page"},
    )
    found = {name: load_dataset(name) for name in ("docqa_single", "covidqa", "tatqa")}
    assert {name: [q.id for q in one.questions] for name, one in found.items()} == {
        "docqa_single": ["c", "t"],
        "covidqa": ["c"],
        "tatqa": ["t"],
    }


def test_corpus_passages_by_id(folder):
    path = folder("mini_corpus", *({"id": name, "title": name, "text": name} for name in "abc"))
    assert set(read_passages(path)) == {"a", "b", "c"}
    assert read_passages(path, frozenset("b"))["b"].text == "b"
    with pytest.raises(InputError, match="1 of 2 passages aren't there: z"):
        read_passages(path, frozenset("bz"))
