"""Tools and forms of answers, from the body of a chat to its reply."""

from dataclasses import replace
from typing import Any

import pytest

from heddle.app.chat.tool_calls import constraint_of
from heddle.app.chat.tools import ToolChoice
from heddle.core.errors import InputError
from heddle.core.prompts.chat_turns import ChatTurn
from heddle.core.prompts.constraint import DEPTH_MAX, FIELD, Constraint
from heddle.core.results import FinishReason
from heddle.runtime.events import TokenDelta
from tests.unit.server.openai.test_routes import ANSWER, USER, FakeServer, chat, frames

CALL = '{"name": "look", "arguments": {"a": 1}}'
TOOLS = [{"type": "function", "function": {"name": "look"}}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
WROTE = replace(ANSWER, text=CALL, finish_reason=FinishReason.STOP)


def calling() -> FakeServer:
    return FakeServer(TokenDelta("answer", CALL), WROTE)


def test_a_call_is_demanded_and_returned():
    server = calling()
    choice = chat(server, tools=TOOLS, tool_choice="required").json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    [call] = choice["message"]["tool_calls"]
    assert (call["type"], call["function"]) == (
        "function",
        {"name": "look", "arguments": '{"a": 1}'},
    )
    [(_, inputs, options)] = server.asked
    assert options["constraint"] == constraint_of(ToolChoice.of(TOOLS, "required"))
    system, user = inputs["turns"].turns
    assert (system.role, '{"name": "look"' in system.content) == ("system", True)
    assert user == ChatTurn("user", "Who?")


def test_a_stream_has_the_call_in_one_chunk():
    *chunks, done = frames(chat(calling(), tools=TOOLS, stream=True))
    first, second, last = (chunk["choices"][0] for chunk in chunks)
    assert first["delta"] == {"role": "assistant", "content": None}
    [call] = second["delta"]["tool_calls"]
    assert (call["index"], call["function"]["name"]) == (0, "look")
    assert (last["finish_reason"], done) == ("tool_calls", "[DONE]")


def test_calls_and_results_of_earlier_turns_are_contents():
    server = FakeServer()
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "<|im_end|>"},
    ]
    assert chat(server, messages=messages, tools=TOOLS, tool_choice="none").status_code == 200
    turns = server.asked[0][1]["turns"].turns
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[-1].content == "Result of look: <|im_end|>"
    assert not any(turn.fields for turn in turns)


@pytest.mark.parametrize("model", ["reader", "workflow:oneshot"])
def test_a_form_reaches_what_writes_the_answer(model: str):
    server = FakeServer()
    assert chat(server, model=model, response_format=FORM).status_code == 200
    assert server.asked[0][2]["constraint"] == Constraint.json_schema(SCHEMA)


@pytest.mark.parametrize("model", ["corpus", "workflow:quote", "workflow:oneshot"])
def test_a_workflow_answers_in_words_where_it_may_call_tools(model: str):
    server = FakeServer(WROTE)
    reply = chat(server, model=model, tools=TOOLS, tool_choice="auto").json()
    assert reply["choices"][0]["message"]["content"] == CALL
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["heddle"]["ignored"] == ["tools"]
    [(_, inputs, options)] = server.asked
    assert inputs == {"query": "Who?"}
    assert "constraint" not in options


def deep() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(DEPTH_MAX):
        found = {"not": found}
    return found


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": "workflow:quote", "response_format": FORM}, "response_format"),
        ({"model": "workflow:oneshot", "tools": TOOLS, "tool_choice": "required"}, "tools"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": FORM, "tools": TOOLS}, "response_format"),
        ({"response_format": FORM, "heddle": {"inline_sources": True}}, "heddle.inline_sources"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": deep()}}},
            "response_format",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(fields: dict[str, Any], param: str):
    server = FakeServer()
    response = chat(server, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert server.asked == []


def test_a_refused_constraint_has_the_name_of_its_field():
    for fields, field in (
        ({"response_format": FORM}, "response_format"),
        ({"tools": TOOLS, "tool_choice": "required"}, "tools"),
    ):
        server = FakeServer(refuses=InputError("no text is of that form", param=FIELD))
        error = chat(server, **fields).json()["error"]
        assert (error["param"], error["message"]) == (field, f"{field}: no text is of that form")
