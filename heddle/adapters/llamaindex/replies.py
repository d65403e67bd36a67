"""Replies of an engine as LlamaIndex's responses."""

import json
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    MessageRole,
    TextBlock,
    ToolCallBlock,
)

from heddle.adapters.chat_words import usage_json
from heddle.adapters.values import ChatReply


def piece_response(text: str, delta: str) -> ChatResponse:
    """Return what a stream says between: the text until now, and the newest piece of it."""
    message = ChatMessage(role=MessageRole.ASSISTANT, blocks=[TextBlock(text=text)])
    return ChatResponse(message=message, delta=delta)


def reply_response(reply: ChatReply, delta: str | None = None) -> ChatResponse:
    """Return a whole reply; `raw` has its usage, and in `heddle` its receipt."""
    calls = [
        ToolCallBlock(
            tool_call_id=one.id, tool_name=one.name, tool_kwargs=json.loads(one.arguments)
        )
        for one in reply.tool_calls
    ]
    blocks = [TextBlock(text=reply.text), *calls]
    return ChatResponse(
        message=ChatMessage(
            role=MessageRole.ASSISTANT, blocks=blocks, additional_kwargs=_calls(reply)
        ),
        delta=delta,
        raw=_raw(reply),
        additional_kwargs=_counts(reply),
    )


def _calls(reply: ChatReply) -> dict[str, Any]:
    """Return the calls in OpenAI's form, where LlamaIndex looks whether a stream has some."""
    calls = [
        {
            "id": one.id,
            "type": "function",
            "function": {"name": one.name, "arguments": one.arguments},
        }
        for one in reply.tool_calls
    ]
    return {"tool_calls": calls} if calls else {}


def _raw(reply: ChatReply) -> dict[str, Any]:
    return {
        "model": reply.model,
        "finish_reason": reply.finish_reason,
        "usage": usage_json(reply),
        "heddle": {"receipt": reply.receipt},
    }


def _counts(reply: ChatReply) -> dict[str, int]:
    """Return the counts where LlamaIndex's own looks for them."""
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
