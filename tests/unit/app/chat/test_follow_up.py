"""Questions that lean on those before, made to stand alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.chat.follow_up import (
    ANSWER_CHARS_SHOWN,
    TURNS_SHOWN,
    WORDS_CARRIED_MAX,
    Turn,
    conversation_text,
    leans,
    rewrite_workflow,
    rewritten,
    with_subject,
)


def turn(question: str, answer: str = "x") -> Turn:
    return Turn(question, question, answer)


@pytest.mark.parametrize(
    ("before", "question", "asked"),
    [
        ("Who built the mill of Elmford?", "And when?", "And when? (built mill Elmford)"),
        ("What does --topk do?", "What is its default?", "What is its default? (topk)"),
        ("Where is the mill?", "Who owns the mills?", "Who owns the mills?"),
        ("Why is that so?", "And when?", "And when?"),
    ],
)
def test_the_subject_of_the_question_before_is_carried(before: str, question: str, asked: str):
    assert with_subject(question, [turn("Else?"), turn(before)]) == asked


@pytest.mark.parametrize(
    ("question", "is_leaning"),
    [
        ("And when?", True),
        ("What is its default?", True),
        ("Why?", True),
        ("Which year?", True),
        ("Where is the church tower?", False),
        ("", True),
    ],
)
def test_questions_that_lean(question: str, is_leaning: bool):
    assert leans(question) == is_leaning


def test_the_first_question_stands_alone():
    assert with_subject("And when?", []) == "And when?"


def test_a_third_question_still_has_the_subject():
    first = turn("Who built the mill of Elmford?")
    second = Turn("And when?", with_subject("And when?", [first]), "1911")
    assert with_subject("Why?", [first, second]) == "Why? (built mill Elmford)"


@given(st.text(max_size=300), st.text(max_size=60))
def test_bounds(before: str, question: str):
    asked = with_subject(question, [turn(before)])
    assert asked.startswith(question)
    assert len(asked.removeprefix(question).split()) <= WORDS_CARRIED_MAX


def test_a_model_is_shown_the_last_turns_with_short_answers():
    history = [turn(f"Question {n}?", "long " * 200) for n in range(9)]
    lines = conversation_text(history).splitlines()
    assert lines[0] == f"Question: Question {9 - TURNS_SHOWN}?"
    assert len(lines) == 2 * TURNS_SHOWN
    assert all(len(line) <= ANSWER_CHARS_SHOWN + len("Answer: ") for line in lines)


def test_a_reply_of_no_use_leaves_the_question():
    assert rewritten("And when?", ' "When was it built?" \n') == "When was it built?"
    assert rewritten("And when?", " ") == "And when?"
    assert rewritten("And when?", "x" * 1000) == "And when?"
    assert rewrite_workflow().inputs == {"query", "conversation"}
