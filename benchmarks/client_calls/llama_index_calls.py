"""llama-index-llms-openai-like: the calls of its page, which sends temperature 0.1 each time."""

import asyncio
from typing import Any

from benchmarks.client_calls.call import ANSWER, KEY, QUESTION, SYSTEM, TOKENS, Client, Servers

CLIENT = Client("llama-index-llms-openai-like", "llama_index.llms.openai_like")


def chat(url: str, model: str, **more: Any) -> Any:
    """Return the chat model of a server."""
    from llama_index.llms.openai_like import OpenAILike

    return OpenAILike(
        api_base=url, api_key=KEY, model=model, is_chat_model=True, max_retries=0, **more
    )


def messages() -> list[Any]:
    """Return the question with a system text."""
    from llama_index.core.llms import ChatMessage

    return [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=QUESTION)]


@CLIENT.call
def complete(servers: Servers) -> None:
    assert ANSWER in chat(servers.quoting, "corpus").complete(QUESTION).text


@CLIENT.call
def stream_complete(servers: Servers) -> None:
    *_, last = chat(servers.quoting, "corpus").stream_complete(QUESTION)
    assert ANSWER in last.text


@CLIENT.call
def chat_with_messages(servers: Servers) -> None:
    reply = chat(servers.quoting, "corpus").chat(messages())
    assert ANSWER in reply.message.content
    assert reply.raw.heddle["workflow"] == "quote"


@CLIENT.call
def stream_chat(servers: Servers) -> None:
    *_, last = chat(servers.quoting, "corpus").stream_chat(messages())
    assert ANSWER in last.message.content


@CLIENT.call
def chat_with_the_llm(servers: Servers) -> None:
    reply = chat(servers.writing, servers.llm, max_tokens=TOKENS).chat(messages())
    assert reply.raw.usage.completion_tokens == TOKENS


@CLIENT.call
def stream_the_llm(servers: Servers) -> None:
    model = chat(servers.writing, servers.llm, max_tokens=TOKENS, temperature=0.0)
    *_, last = model.stream_chat(messages())
    assert last.message.content == model.chat(messages()).message.content


@CLIENT.call
def achat_and_acomplete(servers: Servers) -> None:
    async def ask() -> list[str]:
        model = chat(servers.quoting, "corpus")
        one, other = await asyncio.gather(model.achat(messages()), model.acomplete(QUESTION))
        return [one.message.content, other.text]

    assert all(ANSWER in text for text in asyncio.run(ask()))


@CLIENT.call
def astream_chat(servers: Servers) -> None:
    async def ask() -> str:
        model = chat(servers.quoting, "corpus")
        last = None
        async for part in await model.astream_chat(messages()):
            last = part
        assert last is not None
        return str(last.message.content)

    assert ANSWER in asyncio.run(ask())


@CLIENT.call
def a_text_without_a_chat(servers: Servers) -> None:
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        api_base=servers.writing,
        api_key=KEY,
        model=servers.llm,
        is_chat_model=False,
        max_tokens=TOKENS,
    )
    reply = model.complete("The lighthouse")
    assert reply.raw.usage.completion_tokens == TOKENS
    assert list(model.stream_complete("The lighthouse"))


@CLIENT.call
def a_workflow_with_options(servers: Servers) -> None:
    model = chat(
        servers.writing,
        "workflow:oneshot",
        max_tokens=TOKENS,
        additional_kwargs={"extra_body": {"heddle": {"topk": 1}}},
    )
    assert len(model.chat(messages()).raw.heddle["passages"]) == 1


@CLIENT.call
def a_prompt_is_predicted(servers: Servers) -> None:
    from llama_index.core.prompts import PromptTemplate

    template = PromptTemplate("{question}")
    assert ANSWER in chat(servers.quoting, "corpus").predict(template, question=QUESTION)
