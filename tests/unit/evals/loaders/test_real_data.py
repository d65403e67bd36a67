"""The real files load whole, and say what their README says; skipped where they aren't at hand."""

import statistics

import pytest

from heddle.evals.catalogue import load_dataset
from heddle.evals.context import Context, cases_for
from heddle.evals.metrics.retrieval import answer_in_passages
from tests.unit.evals.data_files import real_file

FILES = {"wiki_single_test": "wiki_single", "covidqa": "docqa_single", "tatqa": "docqa_single"}


@pytest.mark.parametrize(
    ("name", "questions", "kinds"),
    [
        ("wiki_single_test", 1472, 3),
        ("wiki_multihop", 240, 3),
        ("docqa_single", 2637, 5),
        ("covidqa", 969, 1),
        ("tatqa", 1668, 4),
        ("questions_only", 5126, 3),
        ("mini_single", 100, 1),
        ("mini_multihop", 60, 3),
    ],
)
def test_all_questions_load(name, questions, kinds):
    real_file(FILES.get(name, name))
    dataset = load_dataset(name)
    assert len(dataset.questions) == questions
    assert len({question.id for question in dataset.questions}) == questions
    assert len({question.kind for question in dataset.questions}) == kinds


@pytest.mark.parametrize("name", ["mini_single", "mini_multihop", "docqa_single"])
def test_span_answers_stand_in_the_gold_passages(name):
    real_file(name)
    dataset = load_dataset(name)
    spans = tuple(q for q in dataset.questions if not q.kind.endswith(("arithmetic", "count")))
    found = [
        answer_in_passages(
            case.question.answers,
            case.passages,
            requires_all=case.question.requires_all_answers,
        )
        for case in cases_for(dataset, spans[:300], Context.ORACLE)
    ]
    assert statistics.fmean(value for value in found if value is not None) > 0.95


def test_medical_questions_load_with_their_answers():
    real_file("med_single")
    questions = load_dataset("med_single").questions
    assert len(questions) == 13532
    assert all(question.answers for question in questions)
