import hashlib
import json

import pytest

from heddle.core.errors import InputError
from heddle.evals.catalogue import load_dataset
from heddle.evals.loaders.wiki_test import BY_ARTICLE, held_questions
from heddle.evals.question import EvalQuestion
from tests.unit.evals.data_files import real_file, write_lines

# of the ids of the held questions in their order, as tests/unit/extractor/test_split.py has it
HELD = "6003ea3b718946cc63fd96424dfbf4540a2d0df221c76558f19999834bb17caf"


def question(number, kind, gold):
    return EvalQuestion(f"{kind}{number}", "?", ("x",), gold=((gold,),) if gold else (), kind=kind)


def corpus(tmp_path, titles):
    rows = [{"id": f"p{n}", "title": title, "text": "x"} for n, title in enumerate(titles)]
    return write_lines(tmp_path / "corpus.jsonl", rows)


def test_the_last_fifth_of_each_kind_is_held(tmp_path):
    questions = [question(n, kind, "p0") for n in range(10) for kind in ("nq", "ottqa")]
    held = held_questions(questions, corpus(tmp_path, ["A"]))
    assert [one.id for one in held] == ["nq8", "nq9", "ottqa8", "ottqa9"]


def test_an_article_is_held_whole(tmp_path):
    titles = ["A", "B", "C", "D", "E"]
    questions = [question(n, BY_ARTICLE, f"p{n % 5}") for n in range(12)]
    held = held_questions(questions, corpus(tmp_path, titles))
    assert [one.id for one in held] == [f"{BY_ARTICLE}4", f"{BY_ARTICLE}9"]


def test_a_question_without_its_article_is_refused(tmp_path):
    with pytest.raises(InputError, match="names no gold passage"):
        held_questions([question(1, BY_ARTICLE, "")], corpus(tmp_path, ["A"]))


@pytest.mark.parametrize("name", ["wiki_single_test", "wiki_single"])
def test_the_held_questions_are_those_that_the_extractor_never_saw(name):
    real_file("wiki_single")
    dataset = load_dataset(name)
    assert dataset.name == "wiki_single_test"
    assert len(dataset.questions) == 1472
    ids = json.dumps([one.id for one in dataset.questions])
    assert hashlib.sha256(ids.encode()).hexdigest() == HELD
