"""HeddleLLM: the LLM of a Heddle server as LlamaIndex's."""

import json
from collections.abc import Sequence
from contextlib import aclosing, closing
from typing import Any, Final

from llama_index.core.base.llms.generic_utils import (
    achat_to_completion_decorator,
    astream_chat_to_completion_decorator,
    chat_to_completion_decorator,
    stream_chat_to_completion_decorator,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW, DEFAULT_NUM_OUTPUTS
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools.types import BaseTool

from heddle.adapters.calls import achat, chat
from heddle.adapters.chat_words import chat_call
from heddle.adapters.llamaindex.call_refused import refusals
from heddle.adapters.llamaindex.engine_fields import EngineFields
from heddle.adapters.llamaindex.messages import openai_messages
from heddle.adapters.llamaindex.replies import piece_response, reply_response
from heddle.adapters.run import current_place
from heddle.adapters.values import ChatCall, ChatReply
from heddle.core.errors import InputError

CHOICES: Final = ("none", "auto", "required")


class HeddleLLM(EngineFields, FunctionCallingLLM):
    """Writes with the LLM of a Heddle server.

    Keywords of a call come before the fields, by OpenAI's names, and `deadline_s` and `priority`.
    What can't be done is raised as CallRefused.

    Args:
        engine: the address of a running server, or a `heddle.Server` of this process.
        max_tokens: the most tokens of an answer; None = as the server has it, as the next four.
        temperature: 0 = the likeliest token each time.
        top_p: draw from the likeliest tokens that together have this probability.
        seed: equal seeds draw equal tokens.
        stop: texts before which an answer ends.
        context_window: tokens that the model takes, by which LlamaIndex cuts its prompts.
        is_function_calling_model: whether it is offered tools as such.
    """

    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0)
    stop: list[str] = Field(default_factory=list)
    context_window: int = Field(default=DEFAULT_CONTEXT_WINDOW, gt=0)
    is_function_calling_model: bool = True

    @classmethod
    def class_name(cls) -> str:
        """Return the name that a file calls it by."""
        return "HeddleLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex has to know of the model."""
        return LLMMetadata(
            context_window=self.context_window,
            num_output=self.max_tokens or DEFAULT_NUM_OUTPUTS,
            is_chat_model=True,
            is_function_calling_model=self.is_function_calling_model,
            model_name="heddle",
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Go on with a conversation."""
        return self._chat(messages, **kwargs)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Go on with a conversation, piece by piece; closing the stream ends the request."""
        return self._stream_chat(messages, **kwargs)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Go on with a conversation; a task that is cancelled ends the request."""
        return await self._achat(messages, **kwargs)

    @llm_chat_callback()
    async def astream_chat(
        self,
        messages: Sequence[ChatMessage],
        **kwargs: Any,
    ) -> ChatResponseAsyncGen:
        """Go on with a conversation, piece by piece; closing the stream ends the request."""
        return await self._astream_chat(messages, **kwargs)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer what a user says."""
        answered: CompletionResponse = chat_to_completion_decorator(self._chat)(prompt, **kwargs)
        return answered

    @llm_completion_callback()
    def stream_complete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponseGen:
        """Answer what a user says, piece by piece."""
        return stream_chat_to_completion_decorator(self._stream_chat)(prompt, **kwargs)

    @llm_completion_callback()
    async def acomplete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponse:
        """Answer what a user says."""
        return await achat_to_completion_decorator(self._achat)(prompt, **kwargs)

    @llm_completion_callback()
    async def astream_complete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponseAsyncGen:
        """Answer what a user says, piece by piece."""
        return await astream_chat_to_completion_decorator(self._astream_chat)(prompt, **kwargs)

    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = True,
        **kwargs: Any,
    ) -> list[ToolSelection]:
        """Return the calls that the LLM wants to have made.

        Raises:
            InputError: there are none, and there have to be.
        """
        found = [block for block in response.message.blocks if isinstance(block, ToolCallBlock)]
        if not found and error_on_no_tool_call:
            raise InputError(
                "the LLM has called no tool: ask with tool_required=True", param="tools"
            )
        return [
            ToolSelection(
                tool_id=one.tool_call_id or "",
                tool_name=one.tool_name,
                tool_kwargs=_arguments(one),
            )
            for one in found
        ]

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: str | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        said = [] if user_msg is None else [user_msg]
        asked = [
            ChatMessage(role=MessageRole.USER, content=one) if isinstance(one, str) else one
            for one in said
        ]
        choice = "required" if tool_required and tool_choice is None else tool_choice
        if isinstance(choice, str) and choice not in CHOICES:  # LlamaIndex's word for a function
            choice = {"type": "function", "function": {"name": choice}}
        formed = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        given = {"tool_choice": choice, "parallel_tool_calls": allow_parallel_tool_calls}
        return {
            "messages": [*(chat_history or []), *asked],
            **({"tools": formed, **given} if formed else {}),
            **kwargs,
        }

    def _chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        with refusals():
            *_, reply = chat(self.called, self._call(messages, kwargs))
        assert isinstance(reply, ChatReply), "a chat ends with its reply"
        return reply_response(reply)

    async def _achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        reply: str | ChatReply = ""
        with refusals():
            async for item in achat(self.called, self._call(messages, kwargs)):
                reply = item
        assert isinstance(reply, ChatReply), "a chat ends with its reply"
        return reply_response(reply)

    def _stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        # Where it is called, not where it is read: a response outlives its query.
        with refusals():
            call, place = self._call(messages, kwargs), current_place()

        def pieces() -> ChatResponseGen:
            text = ""
            with refusals(), closing(chat(self.called, call, place)) as items:
                for item in items:
                    if isinstance(item, ChatReply):
                        yield reply_response(item, delta="")
                    else:
                        text += item
                        yield piece_response(text, item)

        return pieces()

    async def _astream_chat(
        self,
        messages: Sequence[ChatMessage],
        **kwargs: Any,
    ) -> ChatResponseAsyncGen:
        with refusals():
            call, place = self._call(messages, kwargs), current_place()

        async def pieces() -> ChatResponseAsyncGen:
            text = ""
            with refusals():
                async with aclosing(achat(self.called, call, place)) as items:
                    async for item in items:
                        if isinstance(item, ChatReply):
                            yield reply_response(item, delta="")
                        else:
                            text += item
                            yield piece_response(text, item)

        return pieces()

    def _call(self, messages: Sequence[ChatMessage], given: dict[str, Any]) -> ChatCall:
        own = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": self.stop or None,
        }
        tools = given.pop("tools", None) or ()
        return chat_call(openai_messages(messages), {**own, **given}, tools)


def _arguments(call: ToolCallBlock) -> dict[str, Any]:
    given = call.tool_kwargs
    arguments: dict[str, Any] = json.loads(given) if isinstance(given, str) else given
    return arguments
