"""LlamaIndex's messages as OpenAI's API has them."""

import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ThinkingBlock, ToolCallBlock

from heddle.core.errors import InputError

FIELD = "messages"


def openai_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return a conversation in OpenAI's form.

    What a model has thought before is left out, as OpenAI's API has no place for it.

    Raises:
        InputError: a message holds something else than text and tool calls; it names the message.
    """
    return [_message(message, number) for number, message in enumerate(messages)]


def _message(message: ChatMessage, number: int) -> dict[str, Any]:
    texts, calls = [], []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, ToolCallBlock):
            calls.append(_call(block))
        elif not isinstance(block, ThinkingBlock):
            raise InputError(
                f"{FIELD}.{number}: a {type(block).__name__} can't be read: send text",
                param=FIELD,
            )
    given: dict[str, Any] = {"role": message.role.value, "content": "\n".join(texts)}
    if calls:
        given["tool_calls"] = calls
    if "tool_call_id" in message.additional_kwargs:
        given["tool_call_id"] = message.additional_kwargs["tool_call_id"]
    return given


def _call(block: ToolCallBlock) -> dict[str, Any]:
    arguments = block.tool_kwargs
    return {
        "id": block.tool_call_id,
        "type": "function",
        "function": {
            "name": block.tool_name,
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }
