"""HeddleChatGenerator: the LLM of a Heddle server as Haystack's chat generator."""

from contextlib import aclosing, closing
from typing import Any, Self

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import (
    ChatMessage,
    ComponentInfo,
    StreamingCallbackT,
    select_streaming_callback,
)
from haystack.dataclasses.streaming_chunk import _invoke_streaming_callback
from haystack.tools import (
    ToolsType,
    deserialize_tools_or_toolset_inplace,
    serialize_tools_or_toolset,
)
from haystack.utils import Secret, deserialize_callable, serialize_callable

from heddle.adapters.calls import achat, chat
from heddle.adapters.chat_words import chat_call
from heddle.adapters.haystack.engine_part import EnginePart
from heddle.adapters.haystack.messages import Chunks, message_of, openai_messages, openai_tools
from heddle.adapters.values import ChatCall, ChatReply


@component
class HeddleChatGenerator(EnginePart):
    """Writes with the LLM of a Heddle server.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        generation_kwargs: how it writes, by OpenAI's names (max_tokens, temperature, top_p, seed,
            stop, tool_choice, response_format), and `deadline_s` and `priority`.
        streaming_callback: gets each piece of the text as it is written.
        tools: functions that the LLM may call.
        api_key: the key for a server by its address; None = that of HEDDLE_API_KEY.
        tenant: whose caches are used.
    """

    def __init__(
        self,
        engine: object,
        *,
        generation_kwargs: dict[str, Any] | None = None,
        streaming_callback: StreamingCallbackT | None = None,
        tools: ToolsType | None = None,
        api_key: Secret | None = None,
        tenant: str = "",
    ) -> None:
        EnginePart.__init__(
            self, engine, api_key, tenant
        )  # Haystack makes the class anew: no super()
        self.generation_kwargs = generation_kwargs or {}
        self.streaming_callback = streaming_callback
        self.tools = tools

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Go on with a conversation; `replies` has one message, or none where nothing was said.

        Args:
            messages: the conversation, or what the user says.
            streaming_callback: in the place of the component's own.
            generation_kwargs: beside the component's own, and before these.
            tools: in the place of the component's own.

        Raises:
            InputError, ConfigError: it can't be done as it is.
            HeddleError: it failed.
        """
        callback = select_streaming_callback(
            self.streaming_callback, streaming_callback, requires_async=False
        )
        if not messages:
            return {"replies": []}
        chunks = Chunks(ComponentInfo.from_component(self))
        replies = []
        with closing(chat(self.called, self._call(messages, generation_kwargs, tools))) as items:
            for item in items:
                if isinstance(item, ChatReply):
                    replies.append(message_of(item))
                if callback is not None:
                    callback(chunks.of(item))
        return {"replies": replies}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Go on with a conversation, as `run` does; a task that is cancelled ends the request."""
        callback = select_streaming_callback(
            self.streaming_callback, streaming_callback, requires_async=True
        )
        if not messages:
            return {"replies": []}
        chunks = Chunks(ComponentInfo.from_component(self))
        replies = []
        call = self._call(messages, generation_kwargs, tools)
        async with aclosing(achat(self.called, call)) as items:
            async for item in items:
                if isinstance(item, ChatReply):
                    replies.append(message_of(item))
                if callback is not None:
                    await _invoke_streaming_callback(callback, chunks.of(item))
        return {"replies": replies}

    def to_dict(self) -> dict[str, Any]:
        """Return what a file says of the component.

        Raises:
            ConfigError: its engine is a server of this process.
        """
        callback = self.streaming_callback
        return default_to_dict(
            self,
            **self.saved(),
            generation_kwargs=self.generation_kwargs,
            streaming_callback=None if callback is None else serialize_callable(callback),
            tools=serialize_tools_or_toolset(self.tools),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the component that a file describes."""
        given = data["init_parameters"]
        deserialize_tools_or_toolset_inplace(given, key="tools")
        if given.get("streaming_callback"):
            given["streaming_callback"] = deserialize_callable(given["streaming_callback"])
        return default_from_dict(cls, data)

    def _call(
        self,
        messages: list[ChatMessage] | str,
        generation_kwargs: dict[str, Any] | None,
        tools: ToolsType | None,
    ) -> ChatCall:
        options = {**self.generation_kwargs, **(generation_kwargs or {})}
        given = self.tools if tools is None else tools
        return chat_call(openai_messages(messages), options, openai_tools(given))
