"""The committed corpus: its size and shape, and that every question has one provable answer."""

from collections import Counter

import pytest

from heddle.demo.corpus import (
    STREAM_QUESTION_COUNT,
    DemoQuestion,
    QuestionKind,
    demo_documents,
    demo_questions,
)

PARAGRAPHS = {
    (document.id, index): (document.title, text)
    for document in demo_documents()
    for index, text in enumerate(document.paragraphs)
}
STREAM = demo_questions()[:STREAM_QUESTION_COUNT]


def test_there_are_a_few_hundred_passages_of_the_agreed_length() -> None:
    assert 300 <= len(PARAGRAPHS) <= 450
    assert all(40 <= len(text.split()) <= 120 for _, text in PARAGRAPHS.values())
    assert all(1 <= len(document.paragraphs) <= 3 for document in demo_documents())


def test_ids_titles_and_questions_are_unique() -> None:
    for values in (
        [document.id for document in demo_documents()],
        [document.title for document in demo_documents()],
        [question.id for question in demo_questions()],
        [question.question for question in demo_questions()],
    ):
        assert len(set(values)) == len(values)


def test_no_two_passages_are_equal_and_no_field_was_left_unfilled() -> None:
    texts = [text for _, text in PARAGRAPHS.values()]
    assert len(set(texts)) == len(texts)
    written = texts + [question.question for question in demo_questions()]
    assert not [text for text in written if "{" in text or "}" in text or "  " in text]


def test_the_stream_uses_every_workflow_equally_and_every_kind() -> None:
    assert len(demo_questions()) >= 60
    assert Counter(question.workflow for question in STREAM) == dict.fromkeys(
        ("oneshot", "hyde", "multistep", "irg", "recomp"), 8
    )
    assert Counter(question.kind for question in STREAM) == {
        QuestionKind.SINGLE_HOP: 18,
        QuestionKind.TWO_HOP: 12,
        QuestionKind.ACROSS_PASSAGES: 10,
    }


@pytest.mark.parametrize("question", demo_questions(), ids=lambda question: question.id)
def test_the_answer_stands_in_the_last_gold_passage_and_not_in_the_question(
    question: DemoQuestion,
) -> None:
    *links, (_, answering) = [PARAGRAPHS[gold] for gold in question.gold]
    (answer,) = question.answers
    assert 1 <= len(answer.split()) <= 4
    assert answer in answering
    assert answer not in question.question
    assert not any(answer in text for _, text in links)


@pytest.mark.parametrize("question", demo_questions(), ids=lambda question: question.id)
def test_the_gold_passages_fit_the_kind(question: DemoQuestion) -> None:
    document_ids = [document_id for document_id, _ in question.gold]
    match question.kind:
        case QuestionKind.SINGLE_HOP:
            assert len(document_ids) == 1
        case QuestionKind.TWO_HOP:
            assert len(set(document_ids)) == 2
            bridge = PARAGRAPHS[question.gold[1]][0].split(",")[0]
            assert bridge in PARAGRAPHS[question.gold[0]][1]
            assert bridge not in question.question
        case QuestionKind.ACROSS_PASSAGES:
            assert len(document_ids) == 2
            assert len(set(document_ids)) == 1
            assert question.gold[0][1] == 0
            assert question.gold[1][1] > 0
