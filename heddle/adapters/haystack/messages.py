"""Replies of an engine as Haystack's messages and chunks of a stream."""

import json
from collections.abc import Sequence
from typing import Any

from haystack.dataclasses import (
    ChatMessage,
    ComponentInfo,
    FinishReason,
    StreamingChunk,
    ToolCall,
    ToolCallDelta,
)
from haystack.tools import ToolsType, flatten_tools_or_toolsets

from heddle.adapters.chat_words import usage_json
from heddle.adapters.values import ChatReply
from heddle.core.errors import InputError


def openai_messages(messages: Sequence[ChatMessage] | str) -> list[dict[str, Any]]:
    """Return a conversation in OpenAI's form; a text is what the user says.

    Raises:
        InputError: it is something else.
    """
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    for number, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise InputError(
                f"messages.{number} must be a ChatMessage, got {type(message).__name__}",
                param="messages",
            )
    said: Sequence[Any] = messages
    return [one.to_openai_dict_format(require_tool_call_ids=False) for one in said]


def openai_tools(tools: ToolsType | None) -> list[dict[str, Any]]:
    """Return tools in OpenAI's form."""
    return [
        {"type": "function", "function": one.tool_spec} for one in flatten_tools_or_toolsets(tools)
    ]


def message_of(reply: ChatReply) -> ChatMessage:
    """Return a reply as a message; its `meta` has the usage, and in `heddle` the receipt."""
    calls = [ToolCall(one.name, json.loads(one.arguments), one.id) for one in reply.tool_calls]
    return ChatMessage.from_assistant(
        text=reply.text or (None if calls else ""),
        tool_calls=calls,
        meta={
            "model": reply.model,
            "index": 0,
            "finish_reason": reply.finish_reason,
            "usage": usage_json(reply),
            "heddle": {"receipt": reply.receipt},
        },
    )


class Chunks:
    """The chunks of a stream, as they are handed to a callback.

    Args:
        info: of the component that streams.

    Mutates: notes that the text has begun.
    """

    def __init__(self, info: ComponentInfo) -> None:
        self._info = info
        self._has_begun = False

    def of(self, item: str | ChatReply) -> StreamingChunk:
        """Return the chunk of a piece of the text, or of the whole reply at its end."""
        return self._end(item) if isinstance(item, ChatReply) else self._text(item)

    def _text(self, piece: str) -> StreamingChunk:
        is_first, self._has_begun = not self._has_begun, True
        return StreamingChunk(piece, component_info=self._info, index=0, start=is_first)

    def _end(self, reply: ChatReply) -> StreamingChunk:
        """Return the last chunk: the calls of tools, the usage, and why the text ended."""
        calls = [
            ToolCallDelta(number, one.name, one.arguments, one.id)
            for number, one in enumerate(reply.tool_calls)
        ]
        return StreamingChunk(
            "",
            meta={"model": reply.model, "usage": usage_json(reply)},
            component_info=self._info,
            index=0 if calls else None,
            tool_calls=calls or None,
            start=bool(calls),
            finish_reason=_reason(reply.finish_reason),
        )


def _reason(word: str) -> FinishReason:
    reasons: dict[str, FinishReason] = {"length": "length", "tool_calls": "tool_calls"}
    return reasons.get(word, "stop")
