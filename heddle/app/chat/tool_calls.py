"""Tool calls: how they are asked for, what they have to look like, and how they are read.

The model calls a function by a text of JSON, `{"name": "...", "arguments": {...}}`. Where a request
demands a call, the text is constrained to that; else it is looked for in what the model writes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from heddle.app.chat.tools import Tool, ToolChoice, ToolUse, moved
from heddle.core.prompts.constraint import Constraint
from heddle.workflow.prompt_texts import prompt_text

PROMPT: Final = prompt_text("tools")
CALLS_MAX: Final = 16  # read from one text
_RULES: Final = {
    ToolUse.AUTO: "If no function is needed, answer in words instead.",
    ToolUse.REQUIRED: "You must call a function.",
}
CALL_MARK: Final = "<tool_call>"
_MARKED: Final = re.compile(rf"{CALL_MARK}(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCED: Final = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants to have called.

    Args:
        name: one of the tools'.
        arguments: a JSON object, as text.
    """

    name: str
    arguments: str


def constraint_of(choice: ToolChoice) -> Constraint | None:
    """Return what the answer has to be: a call of one of the tools; None where it may be words.

    Raises:
        InputError: the tools' schemas are too long or nested too deeply.
    """
    if choice.use is not ToolUse.REQUIRED:
        return None
    places = [f"#/$defs/{tool.name}" for tool in choice.tools]
    pairs = list(zip(choice.tools, places, strict=True))
    calls = [tool.call_schema(place) for tool, place in pairs]
    definitions = {tool.name: moved(tool.parameters, place) for tool, place in pairs}
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return Constraint.json_schema({**schema, "$defs": definitions})


def render(messages: Sequence[Mapping[str, Any]], choice: ToolChoice) -> tuple[dict[str, str], ...]:
    """Return a conversation for a model whose chat template knows no tools.

    The tools stand at the end of the system text, a call that was made is the model's own text, and
    its result is said by the user.

    Args:
        messages: in OpenAI's form; their contents are texts.
        choice: the tools.
    """
    names = {
        str(call.get("id")): _function(call).get("name", "")
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    turns = [_plain(message, names) for message in messages]
    shown = _prompt(choice)
    if not shown:
        return tuple(turns)
    if turns and turns[0]["role"] == "system":
        turns[0] = {"role": "system", "content": f"{turns[0]['content']}\n\n{shown}".strip()}
        return tuple(turns)
    return ({"role": "system", "content": shown}, *turns)


def parse(text: str, choice: ToolChoice) -> tuple[ToolCall, ...]:
    """Return the calls that a text is; () where it is words, or was cut off in a call.

    Read are a JSON object, a list of them, and either between <tool_call> and </tool_call>, as
    several families write them.
    """
    if choice.use is ToolUse.NONE:
        return ()
    known = {tool.name for tool in choice.tools}
    marked = _MARKED.findall(text)
    fenced = _FENCED.match(text.strip())
    found: list[ToolCall] = []
    for part in marked or [fenced.group(1) if fenced else text]:
        calls = _calls(part, known)
        if not calls:
            return ()
        found += calls
    return tuple(found[:CALLS_MAX])


def without_calls(text: str) -> str:
    """Return the words beside the calls of a text that has some."""
    return _MARKED.sub("", text) if CALL_MARK in text else ""


def _prompt(choice: ToolChoice) -> str:
    if choice.use is ToolUse.NONE or not choice.tools:
        return ""
    lines = "\n".join(tool.line() for tool in choice.tools)
    filled = PROMPT.replace("{rule}", _RULES[choice.use])
    filled = filled.replace("{example}", _example(choice.tools[0]))
    return filled.replace("{tools}", lines)


def _example(tool: Tool) -> str:
    """Return a call without its arguments: a small model would copy made-up ones."""
    return json.dumps({"name": tool.name, "arguments": {}}).replace("{}", "{...}")


def _plain(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    role, content = str(message.get("role", "")), str(message.get("content") or "")
    if role == "tool":
        name = names.get(str(message.get("tool_call_id")), "") or "the function"
        return {"role": "user", "content": f"Result of {name}: {content}"}
    calls = [_call_text(call) for call in message.get("tool_calls") or ()]
    texts = [content, *calls] if content else calls
    return {"role": role, "content": "\n".join(texts)}


def _call_text(call: Mapping[str, Any]) -> str:
    function = _function(call)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # shown as the text that it is
            arguments = json.loads(arguments)
    return json.dumps({"name": function.get("name"), "arguments": arguments}, ensure_ascii=False)


def _function(call: object) -> Mapping[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    return function if isinstance(function, Mapping) else {}


def _calls(text: str, known: set[str]) -> list[ToolCall]:
    """Return the calls of a text of JSON; none where a part of it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = []
    for call in value if isinstance(value, list) else [value]:
        name = call.get("name") if isinstance(call, dict) else None
        if not isinstance(name, str) or name not in known:
            return []
        arguments = _object(call.get("arguments", call.get("parameters")))
        if arguments is None:
            return []
        found.append(ToolCall(name, _json(arguments)))
    return found


def _object(arguments: object) -> dict[str, Any] | None:
    """Return arguments as an object, also where a text holds its JSON, as OpenAI's calls do."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return arguments if isinstance(arguments, dict) else None


def _json(arguments: dict[str, Any]) -> str:
    """Return arguments as text; half a character, which a model may write, stays an escape."""
    text = json.dumps(arguments, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(arguments)
    return text
