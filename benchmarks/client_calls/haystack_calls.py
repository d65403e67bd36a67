"""haystack-ai: the calls of its pages on OpenAIChatGenerator, its embedders and pipelines."""

import asyncio
from typing import Any

from benchmarks.client_calls.call import ANSWER, KEY, QUESTION, SYSTEM, TOKENS, Client, Servers

CLIENT = Client("haystack-ai", "haystack")


def chat(url: str, model: str, **more: Any) -> Any:
    """Return the chat generator of a server."""
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.utils import Secret

    return OpenAIChatGenerator(
        api_key=Secret.from_token(KEY), api_base_url=url, model=model, max_retries=0, **more
    )


def messages() -> list[Any]:
    """Return the question with a system text."""
    from haystack.dataclasses import ChatMessage

    return [ChatMessage.from_system(SYSTEM), ChatMessage.from_user(QUESTION)]


@CLIENT.call
def a_generator_runs(servers: Servers) -> None:
    [reply] = chat(servers.quoting, "corpus").run(messages())["replies"]
    assert ANSWER in reply.text
    assert reply.meta["finish_reason"] == "stop"


@CLIENT.call
def a_generator_streams(servers: Servers) -> None:
    parts: list[str] = []
    generator = chat(
        servers.quoting, "corpus", streaming_callback=lambda chunk: parts.append(chunk.content)
    )
    [reply] = generator.run(messages())["replies"]
    assert "".join(parts) == reply.text
    assert ANSWER in reply.text


@CLIENT.call
def the_llm_counts_its_tokens(servers: Servers) -> None:
    generator = chat(servers.writing, servers.llm, generation_kwargs={"max_tokens": TOKENS})
    [reply] = generator.run(messages())["replies"]
    assert reply.meta["usage"]["completion_tokens"] == TOKENS
    assert reply.meta["finish_reason"] == "length"


@CLIENT.call
def the_llm_streams(servers: Servers) -> None:
    parts: list[str] = []
    generator = chat(servers.writing, servers.llm, generation_kwargs={"max_tokens": TOKENS})
    generator.run(messages(), streaming_callback=lambda chunk: parts.append(chunk.content))
    assert "".join(parts)


@CLIENT.call
def it_runs_without_blocking(servers: Servers) -> None:
    async def ask() -> str:
        generator = chat(servers.quoting, "corpus")
        [reply] = (await generator.run_async(messages()))["replies"]
        return str(reply.text)

    assert ANSWER in asyncio.run(ask())


@CLIENT.call
def a_pipeline_with_a_prompt_builder(servers: Servers) -> None:
    from haystack import Pipeline
    from haystack.components.builders import ChatPromptBuilder
    from haystack.dataclasses import ChatMessage

    pipeline = Pipeline()
    builder = ChatPromptBuilder([ChatMessage.from_user("{{question}}")], required_variables="*")
    pipeline.add_component("prompt", builder)
    pipeline.add_component("llm", chat(servers.quoting, "corpus"))
    pipeline.connect("prompt.prompt", "llm.messages")
    found = pipeline.run({"prompt": {"question": QUESTION}})
    assert ANSWER in found["llm"]["replies"][0].text


@CLIENT.call
def a_workflow_with_options(servers: Servers) -> None:
    options = {"max_tokens": TOKENS, "extra_body": {"heddle": {"inline_sources": True}}}
    generator = chat(servers.writing, "workflow:oneshot", generation_kwargs=options)
    [reply] = generator.run(messages())["replies"]
    assert "**Sources**" in reply.text


@CLIENT.call
def a_text_is_embedded(servers: Servers) -> None:
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.utils import Secret

    embedder = OpenAITextEmbedder(
        api_key=Secret.from_token(KEY), api_base_url=servers.writing, model=servers.embedder
    )
    assert len(embedder.run("a lighthouse")["embedding"]) == servers.dims


@CLIENT.call
def documents_are_embedded(servers: Servers) -> None:
    from haystack import Document
    from haystack.components.embedders import OpenAIDocumentEmbedder
    from haystack.utils import Secret

    embedder = OpenAIDocumentEmbedder(
        api_key=Secret.from_token(KEY),
        api_base_url=servers.writing,
        model=servers.embedder,
        progress_bar=False,
    )
    found = embedder.run([Document(content="a lighthouse"), Document(content="a keeper")])
    assert [len(one.embedding) for one in found["documents"]] == [servers.dims] * 2


@CLIENT.call
def a_component_survives_its_file(servers: Servers) -> None:
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.utils import Secret

    given = OpenAIChatGenerator(
        api_key=Secret.from_env_var("PATH"), api_base_url=servers.quoting, model="corpus"
    )
    read = OpenAIChatGenerator.from_dict(given.to_dict())
    assert ANSWER in read.run(messages())["replies"][0].text
