"""litellm: the calls of its page on OpenAI-compatible endpoints."""

import asyncio
from typing import Any

from benchmarks.client_calls.call import (
    ANSWER,
    KEY,
    QUESTION,
    SYSTEM,
    TOKENS,
    Client,
    Servers,
    raised,
)

CLIENT = Client("litellm", "litellm")
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


def at(url: str, model: str) -> dict[str, Any]:
    """Return what names a model of a server."""
    return {"model": f"openai/{model}", "api_base": url, "api_key": KEY, "num_retries": 0}


@CLIENT.call
def completion(servers: Servers) -> None:
    import litellm

    reply = litellm.completion(messages=MESSAGES, **at(servers.quoting, "corpus"))
    assert ANSWER in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].message.annotations[0]["url_citation"]["url"]


@CLIENT.call
def completion_of_the_llm(servers: Servers) -> None:
    import litellm

    reply = litellm.completion(
        messages=MESSAGES, max_tokens=TOKENS, **at(servers.writing, servers.llm)
    )
    assert reply.usage.completion_tokens == TOKENS
    assert reply.choices[0].finish_reason == "length"


@CLIENT.call
def streamed_completion(servers: Servers) -> None:
    import litellm

    asked: dict[str, Any] = {"messages": MESSAGES, **at(servers.quoting, "corpus")}
    parts = litellm.completion(stream=True, **asked)
    text = "".join(part.choices[0].delta.content or "" for part in parts)
    assert text == litellm.completion(**asked).choices[0].message.content


@CLIENT.call
def streamed_completion_with_usage(servers: Servers) -> None:
    import litellm

    parts = litellm.completion(
        messages=MESSAGES,
        max_tokens=TOKENS,
        stream=True,
        stream_options={"include_usage": True},
        **at(servers.writing, servers.llm),
    )
    *_, last = parts
    assert last.usage.completion_tokens == TOKENS


@CLIENT.call
def acompletion(servers: Servers) -> None:
    import litellm

    async def ask() -> list[str]:
        asked = (
            litellm.acompletion(messages=MESSAGES, **at(servers.quoting, "corpus"))
            for _ in range(2)
        )
        return [reply.choices[0].message.content for reply in await asyncio.gather(*asked)]

    assert all(ANSWER in text for text in asyncio.run(ask()))


@CLIENT.call
def streamed_acompletion(servers: Servers) -> None:
    import litellm

    async def ask() -> str:
        parts = await litellm.acompletion(
            messages=MESSAGES, stream=True, **at(servers.quoting, "corpus")
        )
        return "".join([part.choices[0].delta.content or "" async for part in parts])

    assert ANSWER in asyncio.run(ask())


@CLIENT.call
def a_workflow_with_options(servers: Servers) -> None:
    import litellm

    reply = litellm.completion(
        messages=MESSAGES,
        max_tokens=TOKENS,
        extra_body={"heddle": {"inline_sources": True}},
        **at(servers.writing, "workflow:oneshot"),
    )
    assert "**Sources**" in reply.choices[0].message.content


@CLIENT.call
def text_completion(servers: Servers) -> None:
    import litellm

    reply = litellm.text_completion(
        model=f"text-completion-openai/{servers.llm}",
        prompt="The lighthouse",
        api_base=servers.writing,
        api_key=KEY,
        max_tokens=TOKENS,
    )
    assert reply.usage.completion_tokens == TOKENS


@CLIENT.call
def embedding(servers: Servers) -> None:
    import litellm

    reply = litellm.embedding(
        input=["a lighthouse", "a keeper"], **at(servers.writing, servers.embedder)
    )
    assert [len(one["embedding"]) for one in reply.data] == [servers.dims] * 2


@CLIENT.call
def an_unknown_model(servers: Servers) -> None:
    import litellm

    asked: dict[str, Any] = {"messages": MESSAGES, **at(servers.writing, "gpt-none")}
    error = raised(litellm.NotFoundError, lambda: litellm.completion(**asked))
    assert "gpt-none" in str(error)


@CLIENT.call
def a_prompt_that_is_too_long(servers: Servers) -> None:
    import litellm

    long = [{"role": "user", "content": "lighthouse " * 20_000}]
    asked: dict[str, Any] = {"messages": long, **at(servers.writing, servers.llm)}
    raised(litellm.ContextWindowExceededError, lambda: litellm.completion(**asked))


@CLIENT.call
def a_router_with_two_deployments(servers: Servers) -> None:
    import litellm

    deployments = [
        {"model_name": "docs", "litellm_params": at(servers.quoting, "corpus")} for _ in range(2)
    ]
    router = litellm.Router(model_list=deployments)
    assert ANSWER in router.completion(model="docs", messages=MESSAGES).choices[0].message.content
