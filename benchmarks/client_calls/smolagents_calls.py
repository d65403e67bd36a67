"""smolagents: the calls of its page on OpenAIModel."""

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
    stop_in,
)

CLIENT = Client("smolagents", "smolagents")


def model(url: str, name: str, **more: Any) -> Any:
    """Return a model of a server."""
    from smolagents import OpenAIModel

    return OpenAIModel(model_id=name, api_base=url, api_key=KEY, **more)


def turns(text: str = QUESTION) -> list[Any]:
    """Return a question as messages whose contents are parts."""
    return [
        {"role": "system", "content": [{"type": "text", "text": SYSTEM}]},
        {"role": "user", "content": [{"type": "text", "text": text}]},
    ]


@CLIENT.call
def generate(servers: Servers) -> None:
    assert ANSWER in model(servers.quoting, "corpus").generate(turns()).content


@CLIENT.call
def call_the_model(servers: Servers) -> None:
    assert ANSWER in model(servers.quoting, "corpus")(turns()).content


@CLIENT.call
def generate_with_the_llm(servers: Servers) -> None:
    reply = model(servers.writing, servers.llm, max_tokens=TOKENS).generate(turns())
    assert reply.token_usage.output_tokens == TOKENS


@CLIENT.call
def generate_stream(servers: Servers) -> None:
    parts = list(model(servers.quoting, "corpus").generate_stream(turns()))
    assert ANSWER in "".join(part.content or "" for part in parts)
    assert any(part.token_usage for part in parts)


@CLIENT.call
def generate_with_stop_sequences(servers: Servers) -> None:
    llm = model(servers.writing, servers.llm, max_tokens=LONG, temperature=0)
    whole = llm.generate(turns()).content
    stop = stop_in(whole)
    stopped = llm.generate(turns(), stop_sequences=[stop]).content
    assert stopped == whole.partition(stop)[0]


@CLIENT.call
def generate_with_options(servers: Servers) -> None:
    asked = model(
        servers.writing,
        "workflow:oneshot",
        max_tokens=TOKENS,
        extra_body={"heddle": {"inline_sources": True}},
    )
    assert "**Sources**" in asked.generate(turns()).content
