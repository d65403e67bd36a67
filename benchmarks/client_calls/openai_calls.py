"""openai: the calls of its README and of OpenAI's API reference."""

import asyncio
import json
from functools import partial
from typing import Any

from benchmarks.client_calls.call import (
    ANSWER,
    KEY,
    LONG,
    QUESTION,
    SYSTEM,
    TOKENS,
    Client,
    Servers,
    raised,
    stop_in,
)

CLIENT = Client("openai", "openai")
MESSAGES: list[Any] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": QUESTION},
]
LOOK: Any = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks a keeper up.",
        "parameters": {
            "type": "object",
            "properties": {"year": {"type": "integer", "minimum": 1800, "maximum": 1900}},
            "required": ["year"],
        },
    },
}
NAP: Any = {"type": "function", "function": {"name": "nap"}}


def opened(url: str) -> Any:
    """Return the client of a server."""
    from openai import OpenAI

    return OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=60)


def refusal(url: str, **wrong: Any) -> Any:
    """Return what the client raises for a chat with these fields."""
    import openai

    asked: dict[str, Any] = {"messages": MESSAGES, "max_tokens": TOKENS, **wrong}
    return raised(openai.APIError, lambda: opened(url).chat.completions.create(**asked))


@CLIENT.call
def models_are_listed(servers: Servers) -> None:
    names = [model.id for model in opened(servers.writing).models.list()]
    assert {"corpus", servers.llm, servers.embedder, "workflow:oneshot"} <= set(names), names


@CLIENT.call
def a_model_is_retrieved(servers: Servers) -> None:
    model = opened(servers.writing).models.retrieve("workflow:oneshot")
    assert (model.id, model.object, model.owned_by) == ("workflow:oneshot", "model", "heddle")


@CLIENT.call
def the_llm_answers(servers: Servers) -> None:
    reply = opened(servers.writing).chat.completions.create(
        model=servers.llm, messages=MESSAGES, max_tokens=TOKENS
    )
    assert reply.choices[0].finish_reason == "length"
    assert reply.choices[0].message.role == "assistant"
    assert reply.usage.completion_tokens == TOKENS
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + TOKENS


@CLIENT.call
def a_stream_is_the_same_text(servers: Servers) -> None:
    create = opened(servers.writing).chat.completions.create
    whole = create(model=servers.llm, messages=MESSAGES, max_tokens=TOKENS)
    chunks = list(create(model=servers.llm, messages=MESSAGES, max_tokens=TOKENS, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in chunks)


@CLIENT.call
def a_stream_counts_its_tokens(servers: Servers) -> None:
    chunks = list(
        opened(servers.writing).chat.completions.create(
            model=servers.llm,
            messages=MESSAGES,
            max_completion_tokens=TOKENS,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == TOKENS


@CLIENT.call
def a_corpus_is_quoted_with_its_source(servers: Servers) -> None:
    reply = opened(servers.quoting).chat.completions.create(model="corpus", messages=MESSAGES)
    message = reply.choices[0].message
    assert ANSWER in message.content
    assert reply.choices[0].finish_reason == "stop"
    cited = message.annotations[0].to_dict()
    assert message.annotations[0].url_citation.title
    assert ANSWER in cited["file_citation"]["quote"]
    assert reply.heddle["quotes"][0]["document_id"] == cited["file_citation"]["file_id"]
    assert reply.heddle["receipt"]["passages_read"] > 0
    assert reply.heddle["ignored"] == ["system"]


@CLIENT.call
def a_streamed_quote_ends_with_its_sources(servers: Servers) -> None:
    *_, last = opened(servers.quoting).chat.completions.create(
        model="corpus", messages=MESSAGES, stream=True
    )
    [cited, *_] = last.choices[0].delta.to_dict()["annotations"]
    assert cited["type"] == "url_citation"
    assert last.heddle["workflow"] == "quote"


@CLIENT.call
def sources_stand_in_the_text_on_demand(servers: Servers) -> None:
    reply = opened(servers.quoting).chat.completions.create(
        model="corpus", messages=MESSAGES, extra_body={"heddle": {"inline_sources": True}}
    )
    assert "**Sources**" in reply.choices[0].message.content


@CLIENT.call
def a_workflow_is_run(servers: Servers) -> None:
    reply = opened(servers.writing).chat.completions.create(
        model="workflow:oneshot",
        messages=MESSAGES,
        max_tokens=TOKENS,
        extra_body={"heddle": {"topk": 2}},
    )
    assert reply.heddle["workflow"] == "oneshot"
    assert len(reply.heddle["passages"]) == len(reply.choices[0].message.annotations) == 2


@CLIENT.call
def content_may_be_parts(servers: Servers) -> None:
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    create = opened(servers.quoting).chat.completions.create
    assert ANSWER in create(model="corpus", messages=parts).choices[0].message.content


@CLIENT.call
def all_roles_are_taken(servers: Servers) -> None:
    turns: Any = [
        {"role": "developer", "content": SYSTEM},
        {"role": "user", "content": "Look it up.", "name": "ada"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "Clara"},
        {"role": "assistant", "content": "It is Clara."},
        {"role": "user", "content": "Who?"},
    ]
    reply = opened(servers.writing).chat.completions.create(
        model=servers.llm, messages=turns, max_tokens=TOKENS
    )
    assert reply.usage.completion_tokens == TOKENS


def called(servers: Servers, **how: Any) -> Any:
    """Return the first choice of a chat with the tools `look` and `nap`."""
    create = opened(servers.writing).chat.completions.create
    asked: dict[str, Any] = {"messages": MESSAGES, "tools": [LOOK, NAP], "max_tokens": LONG}
    return create(model=servers.llm, **{**asked, **how}).choices[0]


@CLIENT.call
def a_tool_is_called(servers: Servers) -> None:
    choice = called(servers, tool_choice="required")
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    [call] = choice.message.tool_calls
    assert (call.type, call.function.name in {"look", "nap"}) == ("function", True)
    turns: Any = [
        *MESSAGES,
        choice.message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": "It was <|im_end|> in 1872."},
    ]
    words = called(servers, messages=turns, tool_choice="none")
    assert words.message.tool_calls is None
    assert words.message.content


@CLIENT.call
def a_tool_is_called_by_its_name(servers: Servers) -> None:
    named: Any = {"type": "function", "function": {"name": "look"}}
    [call] = called(servers, tool_choice=named, parallel_tool_calls=False).message.tool_calls
    assert call.function.name == "look"
    assert 1800 <= json.loads(call.function.arguments)["year"] <= 1900


@CLIENT.call
def a_streamed_call_is_the_same(servers: Servers) -> None:
    with opened(servers.writing).chat.completions.stream(
        model=servers.llm, messages=MESSAGES, tools=[LOOK], tool_choice="required", max_tokens=LONG
    ) as stream:
        choice = stream.get_final_completion().choices[0]
    whole = called(servers, tools=[LOOK], tool_choice="required")
    assert choice.finish_reason == "tool_calls"
    assert [one.function.arguments for one in choice.message.tool_calls] == [
        one.function.arguments for one in whole.message.tool_calls
    ]


@CLIENT.call
def the_model_decides_on_tools(servers: Servers) -> None:
    choice = called(servers, tool_choice="auto", max_tokens=TOKENS)
    assert choice.finish_reason in {"length", "stop", "tool_calls"}
    assert choice.message.content or choice.message.tool_calls


@CLIENT.call
def an_answer_is_parsed_as_its_class(servers: Servers) -> None:
    import openai
    from pydantic import BaseModel, ConfigDict, Field

    class Keeper(BaseModel):
        model_config = ConfigDict(extra="forbid")

        name: str = Field(max_length=12)
        since: int = Field(ge=1700, le=2030)

    parse = opened(servers.writing).chat.completions.parse
    for model in (servers.llm, "workflow:oneshot"):
        asked: dict[str, Any] = {"model": model, "messages": MESSAGES, "response_format": Keeper}
        found = parse(**asked, max_tokens=LONG).choices[0].message.parsed
        assert 1700 <= found.since <= 2030
        cut = partial(parse, **asked, max_tokens=3)
        assert raised(openai.LengthFinishReasonError, cut).completion.choices


@CLIENT.call
def a_form_that_no_text_has_is_refused_by_name(servers: Servers) -> None:
    import openai

    schema = {"type": "integer", "minimum": 5, "maximum": 3}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    arguments = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": arguments}}
    for field, wrong in (
        ("response_format", {"response_format": form}),
        ("tools", {"tools": [tool], "tool_choice": "required"}),
    ):
        error = refusal(servers.writing, model=servers.llm, **wrong)
        assert isinstance(error, openai.BadRequestError), error
        assert error.param == field, error
    for field, given in (
        ("response_format", {"response_format": form}),
        ("tools", {"tools": [NAP], "tool_choice": "required"}),
    ):
        error = refusal(servers.quoting, model="corpus", **given)
        assert (error.param, error.code) == (field, "unsupported_parameter"), error


@CLIENT.call
def stop_strings_end_the_text(servers: Servers) -> None:
    create = opened(servers.writing).chat.completions.create
    whole = create(model=servers.llm, messages=MESSAGES, max_tokens=LONG).choices[0].message.content
    stop = stop_in(whole)
    asked: dict[str, Any] = {"model": servers.llm, "messages": MESSAGES, "max_tokens": LONG}
    stopped = create(**asked, stop=[stop]).choices[0]
    assert stopped.message.content == whole.partition(stop)[0]
    assert stopped.finish_reason == "stop"
    streamed = create(**asked, stop=stop, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert text == stopped.message.content


@CLIENT.call
def equal_seeds_draw_equal_texts(servers: Servers) -> None:
    create = opened(servers.writing).chat.completions.create
    asked: dict[str, Any] = {
        "model": servers.llm,
        "messages": MESSAGES,
        "max_tokens": 24,
        "temperature": 1.5,
        "top_p": 0.95,
    }
    texts = [create(**asked, seed=seed).choices[0].message.content for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]
    # One of a few hundred such texts is empty, so two of them may be equal.
    unseeded = [create(**asked).choices[0] for _ in range(4)]
    assert len({choice.message.content for choice in unseeded}) > 1, unseeded


@CLIENT.call
def a_text_is_gone_on_with(servers: Servers) -> None:
    create = opened(servers.writing).completions.create
    asked: dict[str, Any] = {"model": servers.llm, "max_tokens": TOKENS}
    whole = create(prompt="The lighthouse", **asked)
    assert whole.usage.completion_tokens == TOKENS
    streamed = create(prompt=["The lighthouse"], stream=True, **asked)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text


@CLIENT.call
def texts_are_embedded(servers: Servers) -> None:
    reply = opened(servers.writing).embeddings.create(
        model=servers.embedder, input=["a lighthouse", "a keeper"]
    )
    assert [len(one.embedding) for one in reply.data] == [servers.dims, servers.dims]


@CLIENT.call
def it_works_without_blocking(servers: Servers) -> None:
    from openai import AsyncOpenAI

    async def ask() -> list[str]:
        async with AsyncOpenAI(base_url=servers.quoting, api_key=KEY) as client:
            create = client.chat.completions.create
            asked = (create(model="corpus", messages=MESSAGES) for _ in range(4))
            return [r.choices[0].message.content or "" for r in await asyncio.gather(*asked)]

    assert all(ANSWER in text for text in asyncio.run(ask()))


@CLIENT.call
def a_raw_response_has_the_request_id(servers: Servers) -> None:
    raw = opened(servers.quoting).chat.completions.with_raw_response.create(
        model="corpus", messages=MESSAGES, extra_headers={"X-Request-ID": "mine-1"}
    )
    assert raw.request_id == "mine-1"


@CLIENT.call
def fields_that_nobody_defines_are_ignored(servers: Servers) -> None:
    reply = opened(servers.quoting).chat.completions.create(
        model="corpus",
        messages=MESSAGES,
        user="ada",
        metadata={"a": "b"},
        store=False,
        extra_body={"chat_id": "c-1", "session": {"id": 1}},
    )
    assert ANSWER in reply.choices[0].message.content


@CLIENT.call
def an_unknown_model_is_not_found(servers: Servers) -> None:
    import openai

    error = refusal(servers.writing, model="gpt-none")
    assert isinstance(error, openai.NotFoundError), error
    assert (error.code, error.param) == ("model_not_found", "model")


@CLIENT.call
def a_prompt_that_is_too_long_says_so(servers: Servers) -> None:
    import openai

    long: Any = [{"role": "user", "content": "lighthouse " * 20_000}]
    for stream in (False, True):
        error = refusal(servers.writing, model=servers.llm, messages=long, stream=stream)
        assert isinstance(error, openai.BadRequestError), error
        assert error.code == "context_length_exceeded"


@CLIENT.call
def what_is_not_done_is_refused_by_name(servers: Servers) -> None:
    import openai

    for wrong in ({"n": 2}, {"logit_bias": {"5": 10}}, {"logprobs": True}, {"top_p": 3}):
        error = refusal(servers.writing, model=servers.llm, **wrong)
        assert isinstance(error, openai.BadRequestError), error
        assert error.param == next(iter(wrong))
