"""Tool calls in what a model writes: words are shown at once, and no part of a call is."""

import pytest

from heddle.app.chat.answer_form import AnswerForm
from heddle.app.chat.answer_text import AnswerText
from heddle.app.chat.call_text import CallText
from heddle.app.chat.plain import chat_workflow
from heddle.runtime.events import Answer, TokenDelta
from tests.unit.app.chat.test_answer_text import RECEIPT

TOOLS = [{"type": "function", "function": {"name": "look"}}]
CALL = '{"name": "look", "arguments": {"a": 1}}'


def taken(
    text: str, choice: str = "auto", *, is_parallel: bool = True
) -> tuple[str, str, list[str]]:
    """Return the words that were shown early and at the end, and the names of the calls."""
    form = AnswerForm.of(TOOLS, choice, None, is_parallel=is_parallel)
    shown = CallText(AnswerText(chat_workflow(), is_raw=True), form)
    early = "".join(shown.take(TokenDelta("answer", letter)) for letter in text)
    late = shown.take(Answer(text, (), {}, RECEIPT))
    assert shown.shown == early + late
    return early, late, [call.name for call in shown.calls]


@pytest.mark.parametrize(
    "text", [CALL, f"\n {CALL}", f"[{CALL}]", f"```json\n{CALL}\n```", f"\n<tool_call>{CALL}"]
)
def test_no_part_of_a_call_is_shown(text: str):
    assert taken(text) == ("", "", ["look"])


def test_words_before_a_marked_call_are_shown_at_once():
    text = f"I'll look.<tool_call>{CALL}</tool_call>"
    assert taken(text) == ("I'll look.", "", ["look"])
    assert taken(f"{text}<tool_call>{CALL}</tool_call> So.") == (
        "I'll look.",
        " So.",
        ["look", "look"],
    )


@pytest.mark.parametrize(
    "text", ["It is Clara.", "[1] says a < b.", "{a} is a set", "```python\nx = 1\n```", "<table>"]
)
def test_words_are_shown_at_once(text: str):
    assert taken(text) == (text, "", [])


def test_what_turns_out_to_be_no_call_is_shown_at_the_end():
    for text in ('{"name": "look", "argu', '{"name": "other"}', "a <tool_call>{"):
        early, late, calls = taken(text)
        assert (early + late, calls) == (text, [])
        assert "{" in late


def test_a_call_that_has_to_be_is_shown_only_if_it_was_cut():
    assert taken(CALL, "required") == ("", "", ["look"])
    assert taken(CALL[:-3], "required") == ("", CALL[:-3], [])


def test_one_call_where_several_are_not_wanted():
    assert taken(f"[{CALL}, {CALL}]", is_parallel=False)[2] == ["look"]
