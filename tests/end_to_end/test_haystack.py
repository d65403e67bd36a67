"""Haystack's programs on a real engine, in this process and by its address."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("haystack", reason="the client haystack-ai is not installed: make setup-all")

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.embedders import MockTextEmbedder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

import heddle
from benchmarks.client_calls.serving import http_server
from heddle import Server
from heddle.adapters.haystack import (
    HeddleChatGenerator,
    HeddleDocumentEmbedder,
    HeddleRanker,
    HeddleRetriever,
    HeddleTextEmbedder,
)
from heddle.core.errors import InputError
from heddle.server.http import create_app
from tests.helpers.server_state import eventually, holds_nothing

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
QUESTION = "Who is the keeper of Rock 3?"
PROMPT = "{% for d in documents %}{{ d.content }}\n{% endfor %}Question: {{ question }}"
WRITING = {"temperature": 0, "max_tokens": 8}
ASKED = {
    "words": {"query": QUESTION},
    "embedder": {"text": QUESTION},
    "ranker": {"query": QUESTION},
    "prompt": {"question": QUESTION},
}
CONNECTIONS = (
    ("embedder.embedding", "meaning.query_embedding"),
    ("words.documents", "joiner.documents"),
    ("meaning.documents", "joiner.documents"),
    ("joiner.documents", "ranker.documents"),
    ("ranker.documents", "prompt.documents"),
    ("prompt.prompt", "model.messages"),
    ("model.replies", "router.replies"),
)


@pytest.fixture(scope="module")
def url(inline_server: Server) -> Iterator[str]:
    with http_server(create_app(inline_server, {})) as found:
        yield found


@pytest.fixture(params=["in process", "by url"])
def engine(request: pytest.FixtureRequest, inline_server: Server, url: str) -> Any:
    return inline_server if request.param == "in process" else url


def others(engine: Any) -> Pipeline:
    """Return a pipeline whose searches find nothing, and whose model says so; one part is ours."""
    store = InMemoryDocumentStore()
    return built(
        words=InMemoryBM25Retriever(store, top_k=3),
        embedder=MockTextEmbedder(dimension=2),
        meaning=InMemoryEmbeddingRetriever(store, top_k=3),
        ranker=HeddleRanker(engine, top_k=2),
        model=MockChatGenerator("nothing"),
    )


def built(**parts: Any) -> Pipeline:
    """Return a pipeline of two searches, a joiner, a ranker, a prompt, a model and a router."""
    prompt = ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
    routes = [("{{ replies[0].text | length > 0 }}", "said"), ("{{ True }}", "silent")]
    shape = {"output": "{{ replies[0].text }}", "output_type": str}
    router = ConditionalRouter([{"condition": c, "output_name": n, **shape} for c, n in routes])
    pipeline = Pipeline()
    for name, one in {
        **parts,
        "joiner": DocumentJoiner(),
        "prompt": prompt,
        "router": router,
    }.items():
        pipeline.add_component(name, one)
    for sender, receiver in CONNECTIONS:
        pipeline.connect(sender, receiver)
    return pipeline


def test_a_wrapped_pipeline_answers_as_the_same_calls_by_hand(engine: Any, inline_server: Server):
    model = HeddleChatGenerator(engine, generation_kwargs=WRITING)
    wrapped = heddle.wrap(others(engine), model=model, retriever=True, embedder=True)
    found = wrapped.run(ASKED, {"ranker", "model"})
    ranked = found["ranker"]["documents"]
    assert ranked[0].meta["title"] == "The lighthouse of Rock 3"
    assert ranked[0].score >= ranked[1].score
    prompt = "".join(f"{one.content}\n" for one in ranked) + f"Question: {QUESTION}"
    [by_hand] = model.run(prompt)["replies"]
    [reply] = found["model"]["replies"]
    assert found["router"] == {"said": by_hand.text} == {"said": reply.text}
    assert reply.meta["usage"]["completion_tokens"] == 8
    assert reply.meta["model"] == inline_server.generator.name
    [receipt] = wrapped.receipts
    kinds = {kind for kinds in receipt.primitives_seen.values() for kind in kinds}
    assert kinds == {"embedding", "searching", "reranking", "prompt", "prefilling", "decoding"}
    assert set(receipt.tools) == {"joiner", "router"}
    said = json.loads(json.dumps(reply.meta))["heddle"]["receipt"]
    assert (said["run"], said["caller"]) == (receipt.run, "model")


def test_async_runs_and_streams_say_the_same(engine: Any):
    model = HeddleChatGenerator(engine, generation_kwargs=WRITING)
    pipeline = Pipeline()
    prompt = ChatPromptBuilder([ChatMessage.from_user("{{ question }}")], required_variables="*")
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("model", model)
    pipeline.connect("prompt.prompt", "model.messages")
    wrapped = heddle.wrap(pipeline)

    def asked() -> dict[str, Any]:
        return {"prompt": {"question": QUESTION}}

    async def both() -> tuple[list[str], str]:
        stream = wrapped.stream(asked())
        pieces = [chunk.content async for chunk in stream]
        return pieces, (await wrapped.run_async(asked()))["model"]["replies"][0].text

    pieces, text = asyncio.run(both())
    assert len(pieces) > 2
    assert "".join(pieces) == text == wrapped.run(asked())["model"]["replies"][0].text
    assert len({receipt.run for receipt in wrapped.receipts}) == 3


def test_a_cancelled_run_ends_its_requests(engine: Any, inline_server: Server):
    pipeline = Pipeline()
    long = {"max_tokens": 1900, "temperature": 0}
    pipeline.add_component("model", HeddleChatGenerator(engine, generation_kwargs=long))
    wrapped = heddle.wrap(pipeline)

    async def leave() -> None:
        stream = wrapped.stream({"model": {"messages": [ChatMessage.from_user("Tell.")]}})
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(leave())
    eventually(lambda: holds_nothing(inline_server))
    assert wrapped.receipts[-1].error == "CancelledError"


def test_components_by_themselves(engine: Any, inline_server: Server):
    texts = ["the harbour board builds", "the keeper lights the lamp"]
    documents = HeddleDocumentEmbedder(engine).run([Document(content=text) for text in texts])
    rows = inline_server.embed(texts, role="passage").values.tolist()
    for one, row in zip(documents["documents"], rows, strict=True):
        assert one.embedding == pytest.approx(row, abs=1e-5)
    assert documents["meta"]["usage"]["total_tokens"] > 0
    embedded = HeddleTextEmbedder(engine).run(QUESTION)
    [row] = inline_server.embed([QUESTION], role="query").values.tolist()
    assert embedded["embedding"] == pytest.approx(row, abs=1e-5)
    found = HeddleRetriever(engine, top_k=2).run(QUESTION)["documents"]
    passages = inline_server.search(QUESTION, topk=2).passages
    assert [int(one.id) for one in found] == [one.chunk_id for one in passages]
    assert asyncio.run(HeddleRetriever(engine, top_k=2).run_async(QUESTION))["documents"] == found
    ranked = asyncio.run(HeddleRanker(engine, top_k=1).run_async(QUESTION, found))["documents"]
    assert ranked == HeddleRanker(engine, top_k=1).run(QUESTION, found)["documents"]
    nowhere = {"field": "meta.lang", "operator": "==", "value": "none"}
    assert HeddleRetriever(engine).run("lamp", filters=nowhere) == {"documents": []}


def test_what_the_engine_refuses_is_haystack_s_error_with_its_cause(engine: Any):
    pipeline = Pipeline()
    pipeline.add_component("model", HeddleChatGenerator(engine))
    long = [ChatMessage.from_user("word " * 5_000)]
    with pytest.raises(PipelineRuntimeError, match=r"context_tokens_max|maximum context") as caught:
        heddle.wrap(pipeline).run({"model": {"messages": long}})
    assert isinstance(caught.value.__cause__, InputError)
