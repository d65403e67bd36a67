"""Messages in OpenAI's form as the turns of a conversation."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from heddle.core.errors import InputError
from heddle.core.prompts.chat_turns import SYSTEM, ChatTurn, ChatTurns
from heddle.core.texts.text_check import check_unicode

FIELD: Final = "messages"
ROLES: Final = ("system", "developer", "user", "assistant", "tool")
MESSAGES_MAX: Final = 2_048
# What a part of a message may be, and the field that holds its text.
TEXT_PARTS: Final = {"text": "text", "refusal": "refusal"}


def chat_turns(messages: object) -> ChatTurns:
    """Return a conversation, the oldest turn first.

    Raises:
        InputError: a message can't be used; the error names its place.
    """
    is_list = isinstance(messages, Sequence) and not isinstance(messages, str)
    if not is_list or not isinstance(messages, Sequence) or not 1 <= len(messages) <= MESSAGES_MAX:
        raise InputError(f"{FIELD} must be a list of 1 to {MESSAGES_MAX} messages", param=FIELD)
    return ChatTurns(tuple(chat_turn(one, number) for number, one in enumerate(messages)))


def chat_turn(message: object, number: int) -> ChatTurn:
    """Return a message as the chat template gets it.

    Args:
        message: `role` and `content`, and perhaps `name`, `tool_call_id` and `tool_calls`; fields
            that no template reads are ignored.
        number: its place, for the message of an error.

    Raises:
        InputError: it is of no known role, or holds something else than text.
    """
    given = message if isinstance(message, Mapping) else {}
    role = given.get("role")
    if role not in ROLES:
        raise InputError(
            f"{FIELD}.{number}.role must be one of {', '.join(ROLES)}, got {role!r:.40}",
            param=FIELD,
        )
    calls = given.get("tool_calls") or ()
    if given.get("content") is None and not calls:
        raise InputError(f"{FIELD}.{number}.content is missing", param=FIELD)
    fields = {
        "name": given.get("name"),
        "tool_call_id": given.get("tool_call_id"),
        "tool_calls": [_call(one) for one in calls] or None,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return ChatTurn(SYSTEM if role == "developer" else str(role), _text(given, number), known)


def _text(message: Mapping[str, Any], number: int) -> str:
    content = message.get("content")
    if isinstance(content, str):
        text = content
    else:
        parts = enumerate(content or ())
        text = "\n".join(_part_text(part, f"{number}.content.{i}") for i, part in parts)
    check_unicode(text, f"{FIELD}.{number}.content")
    return text


def _part_text(part: object, place: str) -> str:
    if isinstance(part, str):
        return part
    given = part if isinstance(part, Mapping) else {}
    kind = str(given.get("type"))
    text = given.get(TEXT_PARTS.get(kind, ""))
    if text is None:
        raise InputError(
            f"{FIELD}.{place}: a part of type {kind[:40]!r} can't be read: send text",
            param=FIELD,
        )
    return str(text)


def _call(call: Any) -> Any:  # noqa: ANN401 - JSON of a client
    """Return a tool call as templates read it: its arguments as an object, where they are one."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
