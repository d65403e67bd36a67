"""langchain-openai: the calls of its pages on ChatOpenAI, OpenAI and OpenAIEmbeddings."""

import asyncio
from typing import Any, Literal

from pydantic import BaseModel

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

CLIENT = Client("langchain-openai", "langchain_openai")
TURNS = [("system", SYSTEM), ("human", QUESTION)]


def chat(url: str, model: str, **more: Any) -> Any:
    """Return the chat model of a server."""
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=url, api_key=KEY, model=model, max_retries=0, **more)


@CLIENT.call
def invoke(servers: Servers) -> None:
    message = chat(servers.quoting, "corpus").invoke(TURNS)
    assert ANSWER in message.content
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.usage_metadata["total_tokens"] > 0


@CLIENT.call
def invoke_the_llm(servers: Servers) -> None:
    message = chat(servers.writing, servers.llm, max_tokens=TOKENS, temperature=0).invoke(TURNS)
    assert message.usage_metadata["output_tokens"] == TOKENS
    assert message.response_metadata["finish_reason"] == "length"


@CLIENT.call
def stream(servers: Servers) -> None:
    model = chat(servers.writing, servers.llm, max_tokens=TOKENS, temperature=0)
    text = "".join(chunk.content for chunk in model.stream(TURNS))
    assert text == model.invoke(TURNS).content


@CLIENT.call
def stream_with_usage(servers: Servers) -> None:
    model = chat(servers.writing, servers.llm, max_tokens=TOKENS, stream_usage=True)
    whole = None
    for chunk in model.stream(TURNS):
        whole = chunk if whole is None else whole + chunk
    assert whole.usage_metadata["output_tokens"] == TOKENS


@CLIENT.call
def stream_a_quote(servers: Servers) -> None:
    text = "".join(chunk.content for chunk in chat(servers.quoting, "corpus").stream(TURNS))
    assert text == chat(servers.quoting, "corpus").invoke(TURNS).content


@CLIENT.call
def batch(servers: Servers) -> None:
    found = chat(servers.quoting, "corpus").batch([QUESTION] * 4)
    assert all(ANSWER in message.content for message in found)


@CLIENT.call
def ainvoke_and_astream(servers: Servers) -> None:
    async def ask() -> tuple[str, str]:
        model = chat(servers.quoting, "corpus")
        whole = await model.ainvoke(TURNS)
        return whole.content, "".join([chunk.content async for chunk in model.astream(TURNS)])

    whole, streamed = asyncio.run(ask())
    assert ANSWER in whole
    assert streamed == whole


@CLIENT.call
def a_prompt_template_in_a_chain(servers: Servers) -> None:
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    prompt = ChatPromptTemplate.from_messages([("system", SYSTEM), ("user", "{question}")])
    chain = prompt | chat(servers.quoting, "corpus") | StrOutputParser()
    assert ANSWER in chain.invoke({"question": QUESTION})


@CLIENT.call
def a_conversation(servers: Servers) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

    turns = [SystemMessage(SYSTEM), HumanMessage("Hello"), AIMessage("Ask."), HumanMessage("Who?")]
    message = chat(servers.writing, servers.llm, max_tokens=TOKENS).invoke(turns)
    assert message.usage_metadata["output_tokens"] == TOKENS


@CLIENT.call
def a_workflow_with_options(servers: Servers) -> None:
    model = chat(
        servers.writing,
        "workflow:oneshot",
        max_tokens=TOKENS,
        extra_body={"heddle": {"topk": 1, "inline_sources": True}},
    )
    assert "**Sources**" in model.invoke(TURNS).content


@CLIENT.call
def bound_stop_strings(servers: Servers) -> None:
    model = chat(servers.writing, servers.llm, max_tokens=LONG, temperature=0)
    whole = model.invoke(TURNS).content
    stop = stop_in(whole)
    assert model.bind(stop=[stop]).invoke(TURNS).content == whole.partition(stop)[0]


@CLIENT.call
def complete_a_text(servers: Servers) -> None:
    from langchain_openai import OpenAI

    model = OpenAI(base_url=servers.writing, api_key=KEY, model=servers.llm, max_tokens=TOKENS)
    assert model.invoke("The lighthouse")
    assert "".join(model.stream("The lighthouse"))


@CLIENT.call
def embed_documents_and_a_query(servers: Servers) -> None:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        base_url=servers.writing,
        api_key=KEY,
        model=servers.embedder,
        check_embedding_ctx_length=False,
    )
    assert [len(row) for row in embeddings.embed_documents(["a", "b"])] == [servers.dims] * 2
    assert len(embeddings.embed_query("a")) == servers.dims


@CLIENT.call
def bind_tools(servers: Servers) -> None:
    from langchain_core.messages import AIMessageChunk
    from langchain_core.tools import tool

    @tool
    def look(name: Literal["Ada", "Clara"]) -> str:
        """Look a name up."""
        return name

    model = chat(servers.writing, servers.llm, max_tokens=LONG)
    bound = model.bind_tools([look], tool_choice="any")
    [call] = bound.invoke(TURNS).tool_calls
    [streamed] = sum(bound.stream(TURNS), start=AIMessageChunk(content="")).tool_calls
    assert (call["name"], call["args"]) == (streamed["name"], streamed["args"])
    assert look.invoke(call["args"]) in {"Ada", "Clara"}


@CLIENT.call
def with_structured_output(servers: Servers) -> None:
    class Keeper(BaseModel):
        """A keeper."""

        name: Literal["Ada", "Clara"]

    model = chat(servers.writing, servers.llm, max_tokens=LONG)
    for method in ("json_schema", "function_calling"):
        found = model.with_structured_output(Keeper, method=method).invoke(TURNS)
        assert found.name in {"Ada", "Clara"}


@CLIENT.call
def an_error_is_its_own_class(servers: Servers) -> None:
    import openai

    model = chat(servers.writing, "gpt-none")
    error = raised(openai.NotFoundError, lambda: model.invoke(TURNS))
    assert error.code == "model_not_found"
