"""Heddle's LLM as a chat model of LangChain."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    UsageMetadata,
    convert_to_openai_messages,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from pydantic import BaseModel, Field

from heddle.adapters import calls
from heddle.adapters.langchain.component import Component, place_here
from heddle.adapters.langchain.uncut import UncutJson, UncutObject
from heddle.adapters.values import ChatCall, ChatReply
from heddle.app.chat.tools import moved
from heddle.core.errors import InputError
from heddle.core.tasks import Priority
from heddle.workflow.writing import MAX_TOKENS_MAX, SEED_MAX, TEMPERATURE_MAX

# What a call may say beside its messages, with OpenAI's names.
CALL_FIELDS = (
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "tools",
    "tool_choice",
    "response_format",
    "parallel_tool_calls",
)
# Parts of an answer's content: `tool_calls` of the message has the calls, and OpenAI's API no place
# for what a model has thought.
LEFT_OUT = (
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
    "reasoning",
    "thinking",
    "redacted_thinking",
)
# What LangChain itself and other chat models add, and what changes no answer.
IGNORED = frozenset({"stream", "stream_usage", "ls_structured_output_format", "strict", "user"})


class ChatHeddle(Component, BaseChatModel, extra="forbid"):
    """Heddle's LLM as a chat model.

    Args:
        max_tokens: the most tokens of an answer; None = as the server has it, as the others.
        temperature: 0 = the likeliest token each time.
        top_p: draw from the likeliest tokens that together have this probability.
        seed: equal seeds draw equal tokens; None = drawn anew for each call.
        stop: texts before which an answer ends.
    """

    max_tokens: int | None = Field(default=None, ge=1, le=MAX_TOKENS_MAX)
    temperature: float | None = Field(default=None, ge=0, le=TEMPERATURE_MAX)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, le=SEED_MAX)
    stop: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "heddle"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in (*CALL_FIELDS[:4], "tenant")}
        # By these LangChain keeps answers, and writes a call's own `stop` over one of that name.
        return {"engine": self.heddle.name, **own, "stop_before": self.stop}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with functions that it may call.

        Args:
            tools: as LangChain takes them.
            tool_choice: "none", "auto", "any", "required", True (= required), or a tool's name.
            kwargs: what else each call says.
        """
        formed = [convert_to_openai_tool(tool) for tool in tools]
        names = [tool["function"]["name"] for tool in formed]
        chosen: dict[str, Any] | str | None = None
        if tool_choice in (True, "any"):
            chosen = "required"
        elif isinstance(tool_choice, str) and tool_choice in names:
            chosen = {"type": "function", "function": {"name": tool_choice}}
        elif not isinstance(tool_choice, bool):
            chosen = tool_choice
        given = {} if chosen is None else {"tool_choice": chosen}
        return self.bind(tools=formed, **given, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling", "json_mode"] = "json_schema",
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, dict[str, Any] | BaseModel]:
        """Return the model whose answers have a schema's form.

        With `json_schema` and `function_calling` each answer that isn't cut suits the schema, as no
        other token can be drawn; one that is cut is no object, and raises OutputParserException
        where the whole is wanted. The model doesn't see the schema with `json_schema`: say in the
        prompt what the JSON is to hold.

        Args:
            schema: a JSON schema, or a class of pydantic.
            include_raw: give the message, the value and the error of reading it.
            method: how the form is asked for.
            kwargs: of LangChain's own; `strict` always holds.

        Raises:
            InputError: another method, or an option that isn't known.
        """
        kwargs.pop("strict", None)
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        if method not in ("json_schema", "json_mode") or kwargs:
            raise InputError(
                f"with_structured_output: method is json_schema, function_calling or json_mode, "
                f"without other options; got {method!r:.40} {sorted(kwargs)}"
            )
        form: dict[str, Any] = {"type": "json_object"}
        if method == "json_schema":
            form = schema_form(schema)
        is_class = isinstance(schema, type) and issubclass(schema, BaseModel)
        parser: Any = UncutObject(pydantic_object=schema) if is_class else UncutJson()
        told = {"kwargs": {"method": method}, "schema": schema}
        bound = self.bind(response_format=form, ls_structured_output_format=told)
        if not include_raw:
            return bound | parser
        parsed = RunnablePassthrough.assign(
            parsed=itemgetter("raw") | parser, parsing_error=lambda _: None
        )
        nothing = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks(
            [nothing], exception_key="parsing_error"
        )

    # -- LangChain's side ---------------------------------------------------------------------

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(messages, stop, kwargs)
        *_, reply = calls.chat(self.heddle, call, place_here())
        return _result(reply)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = self._call(messages, stop, kwargs)
        reply: str | ChatReply = ""
        async for item in calls.achat(self.heddle, call, place_here()):
            reply = item
        return _result(reply)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call = self._call(messages, stop, kwargs)
        for item in calls.chat(self.heddle, call, place_here()):
            chunk = _chunk(item)
            if run_manager is not None and isinstance(item, str):
                run_manager.on_llm_new_token(item, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call = self._call(messages, stop, kwargs)
        async for item in calls.achat(self.heddle, call, place_here()):
            chunk = _chunk(item)
            if run_manager is not None and isinstance(item, str):
                await run_manager.on_llm_new_token(item, chunk=chunk)
            yield chunk

    def _call(
        self, messages: list[BaseMessage], stop: list[str] | None, given: dict[str, Any]
    ) -> ChatCall:
        return chat_call(
            messages,
            {**self._own_fields(), **given},
            stop=stop or self.stop,
            deadline_s=self.deadline_s,
            priority=self.service_class,
        )

    def _own_fields(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in CALL_FIELDS[:4]}
        return {name: value for name, value in fields.items() if value is not None}


def schema_form(schema: dict[str, Any] | type) -> dict[str, Any]:
    """Return OpenAI's `response_format` of a schema.

    Objects that name their properties get no others, as with OpenAI's strict schemas.
    """
    found = convert_to_json_schema(schema)
    inner = {"name": found.get("title", "answer"), "schema": moved(found, "#")}
    return {"type": "json_schema", "json_schema": inner}


def chat_call(
    messages: list[BaseMessage],
    given: dict[str, Any],
    *,
    stop: Sequence[str],
    deadline_s: float | None = None,
    priority: Priority = Priority.NORMAL,
) -> ChatCall:
    """Return what a chat model of LangChain was asked for.

    Args:
        messages: the conversation.
        given: keywords of the call, with OpenAI's names.
        stop: texts before which the answer ends.
        deadline_s: seconds until the answer is worthless.
        priority: the service class.

    Raises:
        InputError: a keyword is none that can be followed; the message names it.
    """
    asked: dict[str, Any] = {
        name: given[name] for name in CALL_FIELDS if given.get(name) is not None
    }
    others = {
        name
        for name, value in given.items()
        if name not in CALL_FIELDS and name not in IGNORED and value is not None
    }
    if others:
        raise InputError(
            f"ChatHeddle takes {', '.join(CALL_FIELDS)} and stop; got {sorted(others)[0]!r}: "
            "leave it out"
        )
    return ChatCall(
        messages=tuple(convert_to_openai_messages([_without_calls(one) for one in messages])),
        stop=tuple(stop),
        deadline_s=deadline_s,
        priority=priority,
        **asked,
    )


def _without_calls(message: BaseMessage) -> BaseMessage:
    """Return a message without the parts of its content that say its calls once more, or thoughts.

    LangChain's content blocks, which streams of version "v3" leave in a state, have both.
    """
    content = message.content
    if not isinstance(message, AIMessage) or isinstance(content, str):
        return message
    kept = [one for one in content if isinstance(one, str) or one.get("type") not in LEFT_OUT]
    return message.model_copy(update={"content": kept})


def _chunk(item: str | ChatReply) -> ChatGenerationChunk:
    if isinstance(item, str):
        return ChatGenerationChunk(message=AIMessageChunk(content=item))
    pieces = [
        tool_call_chunk(name=one.name, args=one.arguments, id=one.id, index=index)
        for index, one in enumerate(item.tool_calls)
    ]
    message = AIMessageChunk(
        content="",
        tool_call_chunks=pieces,
        usage_metadata=_usage(item),
        response_metadata=_metadata(item),
        chunk_position="last",
    )
    return ChatGenerationChunk(message=message, generation_info=_metadata(item))


def _result(reply: str | ChatReply) -> ChatResult:
    assert isinstance(reply, ChatReply), "a chat ends with its reply"
    whole = ChatGenerationChunk(message=AIMessageChunk(content=reply.text)) + _chunk(reply)
    found = whole.message
    assert isinstance(found, AIMessageChunk), "chunks of an answer are one"
    message = AIMessage(
        content=found.content,
        tool_calls=found.tool_calls,
        invalid_tool_calls=found.invalid_tool_calls,
        usage_metadata=_usage(reply),
        response_metadata=_metadata(reply),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _metadata(reply: ChatReply) -> dict[str, Any]:
    named = {"model_name": reply.model} if reply.model else {}
    return {"finish_reason": reply.finish_reason, "model_provider": "heddle", **named}


def _usage(reply: ChatReply) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=reply.prompt_tokens,
        output_tokens=reply.completion_tokens,
        total_tokens=reply.prompt_tokens + reply.completion_tokens,
        input_token_details={"cache_read": reply.cached_tokens},
    )
