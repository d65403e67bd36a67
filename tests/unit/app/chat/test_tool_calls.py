"""Tool calls: what is refused, what is asked for, and what is read."""

import json

import pytest

from heddle.app.chat.tool_calls import ToolCall, constraint_of, parse, render
from heddle.app.chat.tools import ToolChoice, ToolUse
from heddle.core.errors import InputError
from heddle.engines.llm.constrained.grammar_text import problem_of

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")

POINT = {
    "type": "object",
    "properties": {"near": {"$ref": "#/$defs/place"}, "also": {"$ref": "#/properties/near"}},
    "required": ["near"],
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        }
    },
}
TOOLS = [
    {"type": "function", "function": {"name": "now"}},
    {
        "type": "function",
        "function": {"name": "find", "description": "Finds.", "parameters": POINT},
    },
]
NAMED = {"type": "function", "function": {"name": "find"}}
CALL = {"name": "find", "arguments": {"near": {"city": "Łódź"}}}


def function(**fields: object) -> list[object]:
    return [{"type": "function", "function": {"name": "f", **fields}}]


@pytest.mark.parametrize(
    ("tools", "choice", "message"),
    [
        ("find", None, "tools must be a list"),
        ([{"type": "web_search"}], None, "tools.0.type must be 'function'"),
        ([{"type": "function"}], None, "tools.0.function must be an object"),
        (function(name="a b"), None, "tools.0.function.name must have"),
        (function(description=3), None, "tools.0.function.description must be a text"),
        (function(parameters={"type": "array"}), None, "tools.0.function.parameters must be"),
        ([*TOOLS, TOOLS[0]], None, "tools.2.function.name is 'now', as an earlier one's"),
        (TOOLS * 65, None, "more than 128"),
        (TOOLS, "always", "tool_choice must be one of none, auto, required"),
        (TOOLS, {"function": {"name": "g"}}, "'g'; the tools are: now, find"),
        (TOOLS, {"type": "allowed_tools"}, "tool_choice.type must be 'function', got 'allowed_"),
        ([], "required", "there are no tools"),
    ],
)
def test_what_can_not_be_used_is_named(tools, choice, message):
    with pytest.raises(InputError, match=message.replace(".", r"\.")) as refused:
        ToolChoice.of(tools, choice)
    assert refused.value.param in str(refused.value)
    assert refused.value.param in ("tools", "tool_choice")


@pytest.mark.parametrize(
    ("tools", "choice", "use"),
    [
        (None, None, ToolUse.NONE),
        (TOOLS, None, ToolUse.AUTO),
        (TOOLS, "none", ToolUse.NONE),
        (TOOLS, "auto", ToolUse.AUTO),
        (TOOLS, "required", ToolUse.REQUIRED),
        (TOOLS, NAMED, ToolUse.REQUIRED),
    ],
)
def test_only_a_call_that_is_required_is_constrained(tools, choice, use):
    chosen = ToolChoice.of(tools, choice)
    assert chosen.use is use
    assert (constraint_of(chosen) is None) == (use is not ToolUse.REQUIRED)


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_references_of_arguments_lead_to_where_they_stand_now(choice):
    constraint = constraint_of(ToolChoice.of(TOOLS, choice))
    assert constraint is not None
    assert problem_of(constraint) == ""
    jsonschema.validate(CALL, constraint.value)
    for wrong in ({"near": {}}, {"near": {"city": "a"}, "also": {}}, {"near": {"city": 1}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"name": "find", "arguments": wrong}, constraint.value)
    with pytest.raises(jsonschema.ValidationError):  # no property that the schema lacks
        jsonschema.validate(
            {"name": "find", "arguments": {"near": {"city": "a"}, "more": 1}}, constraint.value
        )


@pytest.mark.parametrize("name", ["default", "const", "enum", "examples", "$ref", "properties"])
@pytest.mark.parametrize("group", ["$defs", "definitions"])
def test_a_property_may_be_called_as_a_keyword_is(name, group):
    place = POINT["$defs"]["place"]
    parameters = {
        "type": "object",
        "properties": {name: {"$ref": f"#/{group}/{name}"}},
        "required": [name],
        group: {name: place},
    }
    constraint = constraint_of(ToolChoice.of(function(parameters=parameters), "required"))
    assert constraint is not None
    assert problem_of(constraint) == ""
    jsonschema.validate({"name": "f", "arguments": {name: {"city": "a"}}}, constraint.value)
    with pytest.raises(jsonschema.ValidationError):  # its object is closed, too
        jsonschema.validate(
            {"name": "f", "arguments": {name: {"city": "a", "more": 1}}}, constraint.value
        )


def test_a_tool_is_shown_in_the_letters_of_its_language():
    tools = function(description="Sucht Größen in 北京.")
    shown, _ = render([{"role": "user", "content": "x"}], ToolChoice.of(tools))
    assert "Sucht Größen in 北京." in shown["content"]


def test_a_template_without_tools_gets_them_as_text():
    call = {"id": "c1", "function": {"name": "find", "arguments": json.dumps(CALL["arguments"])}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "at sea"},
    ]
    system, _, made, result = render(messages, ToolChoice.of(TOOLS, "required"))
    assert system["content"].startswith("Be brief.\n\nYou can call these functions.")
    assert '{"name": "find", "description": "Finds.", "parameters": {' in system["content"]
    assert system["content"].endswith("You must call a function.")
    assert made == {"role": "assistant", "content": json.dumps(CALL, ensure_ascii=False)}
    assert result == {"role": "user", "content": "Result of find: at sea"}
    [first, *_] = render(messages[1:], ToolChoice.of(TOOLS))
    assert first["role"] == "system"
    assert render(messages[:2], ToolChoice.of(TOOLS, "none")) == tuple(messages[:2])


TEXT = json.dumps(CALL)
ONE = (ToolCall("find", json.dumps(CALL["arguments"], ensure_ascii=False)),)
HALF = (ToolCall("find", '{"at": "\\ud83d"}'),)  # no text can be sent that holds half a character


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (TEXT, ONE),
        (f"[{TEXT}, {TEXT}]", ONE * 2),
        (f"```json\n{TEXT}\n```", ONE),
        (f"Let me look.\n<tool_call>\n{TEXT}\n</tool_call>\n<tool_call>{TEXT}", ONE * 2),
        (TEXT.replace("arguments", "parameters"), ONE),
        (json.dumps(CALL | {"arguments": json.dumps(CALL["arguments"])}), ONE),
        ("It is at sea.", ()),
        (json.dumps({"name": "find", "arguments": {"at": "\ud83d"}}), HALF),
        (TEXT[:-3], ()),
        ('{"name": "other", "arguments": {}}', ()),
        ('{"name": "find", "arguments": "x"}', ()),
        ('{"name": "find", "arguments": "[1]"}', ()),
        ('{"name": ["find"], "arguments": {}}', ()),
        ("[" * 100_000, ()),
    ],
)
def test_calls_are_read_from_what_models_write(text, calls):
    assert parse(text, ToolChoice.of(TOOLS)) == calls
    assert parse(text, ToolChoice.of(TOOLS, "none")) == ()
