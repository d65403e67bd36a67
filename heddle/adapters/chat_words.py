"""OpenAI's words for how a chat is written, and for its cost: frameworks' users know them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from heddle.adapters.values import ChatCall, ChatReply
from heddle.app.chat.tools import moved
from heddle.app.requests.arguments import member_named
from heddle.app.setting import did_you_mean
from heddle.core.errors import InputError
from heddle.core.tasks import Priority

# Options that change no answer, or say what the framework itself decides.
IGNORED: Final = frozenset(
    {"metadata", "model", "prompt_cache_key", "service_tier", "store", "stream", "user"}
    | {"parallel_tool_calls", "safety_identifier", "stream_options"}
)
TAKEN: Final = (
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "tool_choice",
    "response_format",
    "parallel_tool_calls",
    "deadline_s",
)
OPTIONS: Final = (*TAKEN, "max_completion_tokens", "stop", "priority", "n")


def chat_call(
    messages: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
) -> ChatCall:
    """Return a chat's call.

    Args:
        messages: in OpenAI's form.
        options: by OpenAI's names, such as `max_tokens`, and `deadline_s` and `priority`; None says
            as much as leaving it out. A `response_format` may be a class of pydantic.
        tools: functions in OpenAI's form that the LLM may call.

    Raises:
        InputError: an option is unknown, or asks for what isn't done; it names the option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name not in OPTIONS and name not in IGNORED:
            raise InputError(
                f"{name!r} is no option of a chat: {did_you_mean(name, OPTIONS)}", param=name
            )
        if name == "n" and value != 1:
            raise InputError(
                f"n is {value!r:.20}: one answer is written for a call; call it several times",
                param=name,
            )
    taken: dict[str, Any] = {name: given[name] for name in TAKEN if name in given}
    if "response_format" in taken:
        taken["response_format"] = _form(taken["response_format"])
    if "max_completion_tokens" in given:
        taken["max_tokens"] = given["max_completion_tokens"]
    if "priority" in given:
        taken["priority"] = member_named(Priority, given["priority"], "priority")
    stop = given.get("stop", ())
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return ChatCall(messages, stop=stops, tools=tools, **taken)


def _form(response_format: Any) -> Any:
    """Return a form as JSON has it: frameworks' users also give a class of pydantic."""
    if not isinstance(response_format, type) or not issubclass(response_format, BaseModel):
        return response_format
    schema = moved(response_format.model_json_schema(), "#")
    inner = {"name": response_format.__name__, "schema": schema}
    return {"type": "json_schema", "json_schema": inner}


def usage_json(reply: ChatReply) -> dict[str, Any]:
    """Return the tokens that an answer has cost, in OpenAI's words."""
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
    }
