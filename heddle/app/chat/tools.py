"""The tools of a conversation as a caller gives them, checked."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

from heddle.core.errors import InputError

TOOLS_MAX: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VALUES: Final = frozenset({"enum", "const", "default", "examples"})  # hold values, no schemas
# Hold schemas by names that the caller chose: one may be called `default`.
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
NO_ARGUMENTS: Final[dict[str, Any]] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask its caller to call.

    Args:
        name: of the function.
        description: its purpose, for the model.
        parameters: the JSON schema of its arguments, an object's.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    @classmethod
    def of(cls, given: object, place: str) -> Self:
        """Check a tool in OpenAI's form: `{"type": "function", "function": {...}}`.

        Raises:
            InputError: it can't be used; the message names the field below `place`.
        """
        function = given.get("function") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or given.get("type") != "function":
            raise InputError(
                f"{place}.type must be 'function': other tools can't be called", param="tools"
            )
        if not isinstance(function, Mapping):
            raise InputError(
                f"{place}.function must be an object with the function's name", param="tools"
            )
        name, description = function.get("name"), function.get("description") or ""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                f"{place}.function.name must have 1 to 64 letters, digits, _ or -, "
                f"got {name!r:.70}",
                param="tools",
            )
        if not isinstance(description, str):
            raise InputError(f"{place}.function.description must be a text", param="tools")
        parameters = function.get("parameters") or NO_ARGUMENTS
        if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
            raise InputError(
                f"{place}.function.parameters must be the JSON schema of an object, "
                f"got {parameters!r:.60}",
                param="tools",
            )
        return cls(name, description, {"type": "object", **parameters})

    def line(self) -> str:
        """Return the function in one line of JSON, for a prompt."""
        shown = {"name": self.name, "description": self.description, "parameters": self.parameters}
        given = {key: value for key, value in shown.items() if value}
        return json.dumps(given, ensure_ascii=False)

    def call_schema(self, definitions: str) -> dict[str, Any]:
        """Return the schema of a call; its arguments' schema stands at `definitions`."""
        return {
            "type": "object",
            "properties": {"name": {"const": self.name}, "arguments": {"$ref": definitions}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }


class ToolUse(Enum):
    """Whether the model calls tools."""

    NONE = "none"
    AUTO = "auto"  # it decides
    REQUIRED = "required"  # it calls one of them


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model calls tools, and which ones it may call.

    Args:
        use: whether it does.
        tools: those it may call.
    """

    use: ToolUse
    tools: tuple[Tool, ...]

    @classmethod
    def of(cls, tools: object, tool_choice: object = None) -> Self:
        """Check the fields `tools` and `tool_choice` of a request in OpenAI's form.

        Args:
            tools: a list; None or [] = there are none.
            tool_choice: "none", "auto", "required" or `{"type": "function", "function": {"name":
                ...}}`; None = "auto", and "none" where there are no tools.

        Raises:
            InputError: one of them can't be used; the message names the field.
        """
        checked = _checked(tools)
        if tool_choice is None:
            return cls(ToolUse.AUTO if checked else ToolUse.NONE, checked)
        if isinstance(tool_choice, Mapping):
            return cls(ToolUse.REQUIRED, (_named(tool_choice, checked),))
        words = [use.value for use in ToolUse]
        if tool_choice not in words:
            raise InputError(
                f"tool_choice must be one of {', '.join(words)} or name a function, "
                f"got {tool_choice!r:.60}",
                param="tool_choice",
            )
        use = ToolUse(tool_choice)
        if not checked and use is not ToolUse.NONE:
            raise InputError(
                f"tool_choice is {use.value!r}, and there are no tools: give `tools`",
                param="tool_choice",
            )
        return cls(use, checked)


def _checked(tools: object) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise InputError("tools must be a list of functions", param="tools")
    if len(tools) > TOOLS_MAX:
        raise InputError(f"tools has {len(tools)} functions, more than {TOOLS_MAX}", param="tools")
    checked = tuple(Tool.of(given, f"tools.{place}") for place, given in enumerate(tools))
    names = [tool.name for tool in checked]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(
                f"tools.{place}.function.name is {name!r}, as an earlier one's", param="tools"
            )
    return checked


def _named(tool_choice: Mapping[str, Any], tools: tuple[Tool, ...]) -> Tool:
    kind = tool_choice.get("type", "function")
    if kind != "function":
        raise InputError(
            f"tool_choice.type must be 'function', got {kind!r:.60}: name one, or send the tools "
            "that may be called alone",
            param="tool_choice",
        )
    function = tool_choice.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    found = next((tool for tool in tools if tool.name == name), None)
    if found is None:
        known = ", ".join(tool.name for tool in tools) or "none"
        raise InputError(
            f"tool_choice.function.name is {name!r:.70}; the tools are: {known}",
            param="tool_choice",
        )
    return found


def moved(schema: object, place: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return a schema that stands at `place` of a larger one, its references led there.

    An object that names its properties and doesn't say whether others may come gets none: what is
    generated then suits the schema as it was.
    """
    if isinstance(schema, list):
        return [moved(part, place) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _moved_value(key, value, place) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        inner["$ref"] = f"{place}{reference[1:]}"
    if schema.get("type") == "object" and _is_closed(schema):
        inner.setdefault("additionalProperties", False)
    return inner


def _moved_value(keyword: str, value: object, place: str) -> Any:  # noqa: ANN401 - any JSON value
    if keyword in _VALUES:
        return value
    if keyword in _NAMED and isinstance(value, Mapping):
        return {name: moved(part, place) for name, part in value.items()}
    return moved(value, place)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether all properties that a schema speaks of stand beside each other."""
    others = {"allOf", "anyOf", "oneOf", "$ref", "patternProperties"}
    return "properties" in schema and not others & schema.keys()
