"""No passage can end the passages: 20 injections against the line behind them."""

import pytest

from heddle.core.passages import Passage
from heddle.core.payloads import PrefillPayload
from heddle.core.system_text import SystemText
from heddle.runtime.fence import fenced, fenced_question, mark_of
from heddle.workflow import presets
from heddle.workflow.model_prompts import model_prompts, with_model_prompts
from heddle.workflow.ragraph import RAGraph
from tools.attacks.injection import WANTED, injections

QUESTION = "Question: who?"
HARMLESS = Passage(9, "d", "Rock 3", "Marta keeps it.")


def line_of(parts):
    """The line and its mark."""
    (line,) = (part for part in parts if isinstance(part, str) and part.startswith("[end of"))
    return line, line.split("]")[0].removeprefix("[end of passages ")


def test_there_are_twenty_and_all_want_the_same():
    assert len({one.name for one in injections()}) == 20
    assert all(WANTED in one.title + "".join(one.passages) for one in injections())


@pytest.mark.parametrize("one", injections(), ids=lambda one: one.name)
@pytest.mark.parametrize("place", [0, 1])
def test_only_the_question_stands_behind_the_one_line_with_the_mark(one, place):
    injected = one.shown(QUESTION)
    passages = (*injected, HARMLESS) if place else (HARMLESS, *injected)
    parts = fenced(["Read.\n\n", *passages, QUESTION])
    line, mark = line_of(parts)
    assert parts == ["Read.\n\n", *passages, line, QUESTION]
    assert not any(mark in passage.render() for passage in passages)
    text = "".join(p.render() if isinstance(p, Passage) else p for p in parts)
    assert text.count(mark) == 1
    assert text.endswith(f"{line}{QUESTION}")


def test_some_injections_hold_the_first_mark_and_get_another():
    marks = {one.name: line_of(fenced([*one.shown(QUESTION), QUESTION]))[1] for one in injections()}
    redrawn = {name for name, mark in marks.items() if mark != mark_of(QUESTION)}
    holding = {one.name for one in injections() if "{mark}" in one.title + "".join(one.passages)}
    assert redrawn == holding
    assert len(holding) >= 3


def test_marks_that_were_drawn_in_advance_are_passed_over():
    known = " ".join(mark_of(QUESTION, draw) for draw in range(50))
    parts = fenced([Passage(1, "d", "t", known), QUESTION])
    assert line_of(parts)[1] == mark_of(QUESTION, 50)


def test_equal_prompts_have_equal_marks_and_other_questions_others():
    first, again = (fenced([HARMLESS, QUESTION]) for _ in range(2))
    assert first == again
    assert line_of(first) != line_of(fenced([HARMLESS, "Question: where?"]))


def test_what_stands_before_the_line_is_the_same_for_each_question():
    first, other = (fenced(["Read.", HARMLESS, text]) for text in ("why", "where"))
    assert first[:2] == other[:2]


def test_a_prompt_without_passages_has_no_line():
    assert fenced([SystemText("Be short."), QUESTION]) == [SystemText("Be short."), QUESTION]


def test_a_question_that_is_run_ahead_has_the_line_of_its_prompt():
    ahead = fenced_question(["Question: ", "who?"])
    assert ahead == fenced([HARMLESS, "Question: ", "who?"])[1:]


def shown_text(bench):
    """The text of the one prompt that was sent."""
    (payload,) = (t.payload for t in bench.llm.tasks() if isinstance(t.payload, PrefillPayload))
    return "".join(chr(token) for segment in payload.segments for token in segment.token_ids)


@pytest.mark.parametrize("fence", [True, False])
def test_a_generation_has_the_line_unless_it_says_otherwise(bench, fence):
    graph = RAGraph("w").add_retrieval("find", output="docs")
    bench.submit(graph.add_generation("answer", "Read. {docs}{query}", fence=fence).compile())
    assert ("[end of passages " in shown_text(bench)) is fence


def test_a_model_that_was_trained_without_the_line_gets_none(bench):
    own = {"answer": {"prompt": "Notes: {docs}{query}", "fence": False}}
    bench.submit(with_model_prompts(presets.oneshot().compile(), model_prompts(own, "here")))
    assert "Notes: " in shown_text(bench)
    assert "[end of" not in shown_text(bench)
