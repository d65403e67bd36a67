"""Pairs of questions that a cosine alone would take for one."""

import pytest

from heddle.runtime.question_match import asks_the_same

SAME = [
    ("Who founded the bakery?", "who founded the bakery"),
    ("What is the default of --max-clients?", "what's the default of --max-clients"),
    ("How many levels has the mine?", "Please tell me how many levels the mine has."),
    ("Which of the lighthouses is the oldest?", "Which lighthouse is oldest?"),
    ("How can I reach Wend's harbour?", "How do I reach Wend’s harbour?"),
    ("What colour is the logo?", "Which colour is the logo?"),
    ("A mill burned. Who built it?", "The mill burned; who built it"),
    ("How do I open the gates?", "how do i open the gate"),
    ("What does “--max-clients” do?", 'What does "--max-clients" do'),
    ("Who'll open the gate (at noon)?", "Who will open the gate at noon?"),
]
OTHERS = [
    ("How do I enable the log?", "How do I disable the log?"),
    ("How do I install it?", "How do I uninstall it?"),
    ("What is the minimum timeout?", "What is the maximum timeout?"),
    ("When was the mine opened?", "When was the mine closed?"),
    ("Does it run without a GPU?", "Does it run with a GPU?"),
    ("Who won the game?", "Who didn't win the game?"),
    ("Who is the keeper of Rock 3?", "Who was the keeper of Rock 3?"),
    ("What is the name of his wife?", "What is the name of his daughter?"),
    ("What is it?", "What is this?"),
    ("Who can enter?", "Who can’t enter?"),
    ("How do I convert text to speech?", "How do I convert speech to text?"),
    ("What is port 8080 for?", "What is port 8081 for?"),
    ("What does --max-cost do?", "What does --max-heads do?"),
    ("Where is the town of Wend?", "Where is the town of Wendel?"),
    ("What happened before the fire?", "What happened after the fire?"),
    ("What does 'enable' do?", "What does 'disable' do?"),
]
LETTERS_AND_NAMES = [
    ("What is the code of door A?", "What is the code of door D?"),
    ("What is the code of door A?", "What is the code of the door?"),
    ("what is the code of door d?", "what is the code of door s?"),
    ("Who built machine I?", "Who built the machine?"),
    ("Who is the head of IT?", "Who is the head?"),
    ("What did Will say about the mill?", "What did the will say about the mill?"),
    ("When was Mr O'Brien born?", "When was Mr O'Neill born?"),
    ("What was built in the 1990s?", "What was built in 1990?"),
    ("What was built in the 1990's?", "What was built in 1990?"),
]
SIGNS = [
    ("What does a == b return?", "What does a != b return?"),
    ("What does a = b return?", "What does a != b return?"),
    ("What does the shell do with a && b?", "What does the shell do with a || b?"),
    ("Which pumps have a pressure > 8 bar?", "Which pumps have a pressure < 8 bar?"),
    ("How do I read a file in C?", "How do I read a file in C++?"),
    ("How do I read a file in C++?", "How do I read a file in C#?"),
    ("What is the discount of $5?", "What is the discount of 5%?"),
    ("Which drill makes holes of .5 mm?", "Which drill makes holes of 5 mm?"),
    ("What does a++ do?", "What does a-- do?"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_other_wordings_may_ask_the_same(one, other):
    assert asks_the_same(one, other)
    assert asks_the_same(other, one)


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_a_word_that_turns_the_answer_tells_them_apart(one, other):
    assert not asks_the_same(one, other)
    assert not asks_the_same(other, one)


@pytest.mark.parametrize(("one", "other"), LETTERS_AND_NAMES)
def test_a_letter_a_name_or_a_decade_tells_questions_apart(one, other):
    assert not asks_the_same(one, other)
    assert not asks_the_same(other, one)


@pytest.mark.parametrize(("one", "other"), SIGNS)
def test_signs_tell_questions_apart(one, other):
    assert not asks_the_same(one, other)
    assert not asks_the_same(other, one)
