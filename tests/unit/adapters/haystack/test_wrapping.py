"""What `heddle.wrap` makes of a Haystack pipeline, on an engine that notes who calls."""

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip("haystack", reason="the client haystack-ai is not installed: make setup-all")

from haystack import Document, Pipeline, SuperComponent
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.embedders import MockTextEmbedder
from haystack.components.generators.chat import MockChatGenerator
from haystack.components.joiners import BranchJoiner, DocumentJoiner
from haystack.components.retrievers.in_memory import (
    InMemoryBM25Retriever,
    InMemoryEmbeddingRetriever,
)
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import ComponentTool

import heddle
from heddle.adapters.haystack import HeddleChatGenerator, HeddleRetriever
from heddle.adapters.values import (
    ChatReply,
    EmbedCall,
    Embedded,
    Found,
    SearchCall,
    ToolRequest,
)
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import ConfigError, InputError
from heddle.core.tasks import Priority
from tests.helpers.fake_endpoint import FakeEndpoint
from tests.helpers.scripted_engine import ScriptedEngine

PROMPT = "{% for d in documents %}{{ d.content }}\n{% endfor %}{{ question }}"
ASKED = {
    "words": {"query": "mill"},
    "embedder": {"text": "mill"},
    "prompt": {"question": "Who built it?"},
}
ALL = {"model": True, "retriever": True, "embedder": True}


def router() -> ConditionalRouter:
    """Return a router of an answer: good with a year in it, else poor."""
    routes = [("{{ '1823' in replies[0].text }}", "good"), ("{{ True }}", "poor")]
    shape = {"output": "{{ replies[0].text }}", "output_type": str}
    return ConditionalRouter(
        [{"condition": condition, "output_name": name, **shape} for condition, name in routes]
    )


def rag() -> Pipeline:
    """Return a pipeline of others' components, with a joiner and a router."""
    store = InMemoryDocumentStore()
    store.write_documents([Document(content="own", embedding=[1.0, 0.0])])
    pipeline = Pipeline()
    pipeline.add_component("words", InMemoryBM25Retriever(store, top_k=1))
    pipeline.add_component("embedder", MockTextEmbedder(dimension=2))
    pipeline.add_component("meaning", InMemoryEmbeddingRetriever(store, top_k=2))
    pipeline.add_component("joiner", DocumentJoiner())
    prompt = ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
    pipeline.add_component("prompt", prompt)
    model = MockChatGenerator("none", streaming_callback=None)
    pipeline.add_component("model", model)
    pipeline.add_component("router", router())
    for sender, receiver in (
        ("embedder.embedding", "meaning.query_embedding"),
        ("words.documents", "joiner.documents"),
        ("meaning.documents", "joiner.documents"),
        ("joiner.documents", "prompt.documents"),
        ("prompt.prompt", "model.messages"),
        ("model.replies", "router.replies"),
    ):
        pipeline.connect(sender, receiver)
    return pipeline


def answer(call: Any) -> str:
    """Answer with a year where the prompt holds it."""
    return "1823" if "1823" in call.messages[0]["content"] else "none"


def test_a_run_s_components_call_at_their_place_and_the_rest_are_tools():
    engine, plain = ScriptedEngine(answer), rag()
    wrapped = heddle.wrap(plain, engine, **ALL)
    assert wrapped.run(ASKED, {"joiner"})["router"] == {"good": "1823"}
    [receipt] = wrapped.receipts
    depths = {by.caller.node: by.caller.depth for _, by in engine.calls}
    assert depths == {"words": 2, "embedder": 4, "meaning": 2, "model": 0}
    assert {by.caller.run for _, by in engine.calls} == {receipt.run}
    kinds = {kind for found in receipt.primitives_seen.values() for kind in found}
    assert kinds == {"embedding", "searching", "prompt", "prefilling", "decoding"}
    assert set(receipt.tools) == {"joiner", "router"}
    searches = [call for call, _ in engine.calls if isinstance(call, SearchCall)]
    assert {(one.query, one.topk, one.hybrid) for one in searches} == {
        ("mill", 1, True),
        ("mill", 2, False),
    }
    # The pipeline that it was made of runs as it did, and a file names its own components.
    assert plain.run(ASKED)["router"] == {"poor": "none"}
    assert wrapped.dumps() == plain.dumps()


def test_two_runs_at_once_are_two_and_stream_what_the_model_writes():
    engine = ScriptedEngine(answer)
    wrapped = heddle.wrap(rag(), engine, priority="interactive", **ALL)

    async def streamed() -> list[str]:
        stream = wrapped.stream({**ASKED})  # Haystack writes its callbacks into it
        return [chunk.content async for chunk in stream]

    async def both() -> tuple[list[str], dict[str, Any]]:
        return await asyncio.gather(streamed(), wrapped.run_async(ASKED))

    pieces, found = asyncio.run(both())
    assert "".join(pieces) == found["router"]["good"] == "1823"
    runs = [by.caller.run for _, by in engine.calls]
    assert sorted(runs.count(receipt.run) for receipt in wrapped.receipts) == [4, 4]
    assert {by.priority for _, by in engine.calls} == {Priority.INTERACTIVE}


class Meeting(ScriptedEngine):
    """An engine whose searches and embeddings wait for each other: three at once, or none ends."""

    def __init__(self) -> None:
        super().__init__(answer)
        self.barrier = threading.Barrier(3, timeout=10.0)

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        self.barrier.wait()
        return super().search(call, by)

    def embed(self, call: EmbedCall, by: CallIdentity | None = None) -> Embedded:
        self.barrier.wait()
        return super().embed(call, by)


def test_searches_that_the_inputs_tell_begin_with_the_run():
    engine = Meeting()
    wrapped = heddle.wrap(rag(), engine, **ALL)
    assert wrapped.run(ASKED)["router"] == {"good": "1823"}
    assert sorted(engine.nodes) == ["embedder", "meaning", "model", "words"]
    [receipt] = wrapped.receipts
    assert receipt.calls_count == 4
    with pytest.raises(ValueError, match="Missing mandatory input 'query'"):
        wrapped.run({name: given for name, given in ASKED.items() if name != "words"})
    assert len(engine.calls) == 4


def test_a_loop_counts_once_and_its_rounds_are_one_run():
    drafts = iter(["no year", "in 1823"])
    engine = ScriptedEngine(lambda call: next(drafts))
    pipeline = Pipeline()
    pipeline.add_component("again", BranchJoiner(list[ChatMessage]))
    pipeline.add_component("model", HeddleChatGenerator(engine))
    routes = [
        ("{{ '1823' in replies[0].text }}", "good", "{{ replies[0].text }}", str),
        ("{{ True }}", "poor", "{{ replies }}", list[ChatMessage]),
    ]
    keys = ("condition", "output_name", "output", "output_type")
    described = [dict(zip(keys, route, strict=True)) for route in routes]
    pipeline.add_component("router", ConditionalRouter(described, unsafe=True))
    for sender, receiver in (
        ("again.value", "model.messages"),
        ("model.replies", "router.replies"),
        ("router.poor", "again.value"),
    ):
        pipeline.connect(sender, receiver)
    told = []
    wrapped = heddle.wrap(pipeline, on_receipt=told.append)
    found = wrapped.run({"again": {"value": [ChatMessage.from_user("When?")]}})
    assert found["router"] == {"good": "in 1823"}
    [receipt] = told
    assert [call.node for call in receipt.calls] == ["model", "model"]
    assert receipt.tools["router"].times == 2
    assert [by.caller.depth for _, by in engine.calls] == [0, 0]


def test_a_wrapped_pipeline_within_another_s_run_is_part_of_that():
    engine = ScriptedEngine()
    inner = Pipeline()
    inner.add_component("retriever", HeddleRetriever(engine))
    outer = Pipeline()
    outer.add_component("search", SuperComponent(heddle.wrap(inner)))
    prompt = ChatPromptBuilder([ChatMessage.from_user(PROMPT)], required_variables="*")
    outer.add_component("prompt", prompt)
    outer.add_component("model", HeddleChatGenerator(engine))
    outer.connect("search.documents", "prompt.documents")
    outer.connect("prompt.prompt", "model.messages")
    wrapped = heddle.wrap(outer)
    wrapped.run({"search": {"query": "mill"}, "prompt": {"question": "Who?"}})
    places = [(by.caller.node, by.caller.depth) for _, by in engine.calls]
    assert places == [("retriever", 2), ("model", 0)]
    assert len({by.caller.run for _, by in engine.calls}) == 1


def test_an_agent_calls_at_its_own_place_with_its_model_and_its_tools():
    replies = iter([ChatReply("", (ToolRequest("1", "find", '{"query": "mill"}'),)), "1823"])
    engine = ScriptedEngine(lambda call: next(replies))
    find = ComponentTool(HeddleRetriever(engine, top_k=1), name="find")
    pipeline = Pipeline()
    agent = Agent(chat_generator=HeddleChatGenerator(engine), tools=[find])
    pipeline.add_component("agent", agent)
    wrapped = heddle.wrap(pipeline)
    found = wrapped.run({"agent": {"messages": [ChatMessage.from_user("When?")]}})
    assert found["agent"]["last_message"].text == "1823"
    assert engine.nodes == ["agent"] * 3
    assert set(wrapped.receipts[-1].primitives_seen["agent"]) == {
        *("embedding", "searching"),
        *("prefilling", "decoding"),
    }


def test_a_run_that_fails_has_a_receipt_that_says_so():
    def fail(call: Any) -> ChatReply:
        raise InputError("too long")

    engine = ScriptedEngine(fail)
    wrapped = heddle.wrap(rag(), engine, **ALL)
    with pytest.raises(PipelineRuntimeError, match="too long") as caught:
        asyncio.run(wrapped.run_async(ASKED))
    assert isinstance(caught.value.__cause__, InputError)
    assert wrapped.receipts[-1].error == "PipelineRuntimeError"
    assert wrapped.receipts[-1].calls[-1].error == "InputError"
    assert engine.cancelled == [wrapped.receipts[-1].run]


def test_a_task_that_is_cancelled_leaves_its_chat():
    engine = ScriptedEngine()

    async def leave() -> None:
        engine.gate = asyncio.Event()
        task = asyncio.create_task(heddle.wrap(rag(), engine, **ALL).run_async(ASKED))
        await asyncio.to_thread(engine.begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert engine.left == 1


def test_what_cannot_be_wrapped_is_refused_with_what_to_do():
    engine = ScriptedEngine()
    with pytest.raises(ConfigError, match=r"model: MockChatGenerator, a model.*model=True"):
        heddle.wrap(rag(), engine)
    with pytest.raises(ConfigError, match="nothing in the pipeline names an engine"):
        heddle.wrap(rag(), model=True)
    with pytest.raises(ConfigError, match="model must be True or a HeddleChatGenerator"):
        heddle.wrap(rag(), engine, model=HeddleRetriever(engine))
    with pytest.raises(ConfigError, match="ranker= finds no component"):
        heddle.wrap(rag(), engine, model=True, ranker=True)
    with pytest.raises(ConfigError, match="wrapped already"):
        heddle.wrap(heddle.wrap(rag(), engine, model=True))
    with pytest.raises(ConfigError, match="'tempo' is no option"):
        heddle.wrap(rag(), engine, model=True, tempo=1)


def test_a_stand_in_at_an_address_takes_the_key_that_components_take(monkeypatch):
    monkeypatch.setenv("HEDDLE_API_KEY", "heddle-abc")
    with FakeEndpoint() as server:
        wrapped = heddle.wrap(rag(), server.url, model=True)
        with pytest.raises(PipelineRuntimeError, match="no model that writes"):  # it is no Heddle
            wrapped.run(ASKED)
    assert {asked.headers.get("authorization") for asked in server.asked} == {"Bearer heddle-abc"}


def test_an_input_that_a_stand_in_cannot_follow_is_refused():
    engine = ScriptedEngine()
    wrapped = heddle.wrap(rag(), engine, **ALL)
    scaled = {**ASKED, "words": {"query": "mill", "scale_score": True}}
    with pytest.raises(InputError, match="'words': HeddleRetriever has no input 'scale_score'"):
        wrapped.run(scaled)
    pipeline = Pipeline()
    pipeline.add_component("meaning", InMemoryEmbeddingRetriever(InMemoryDocumentStore()))
    with pytest.raises(InputError, match="comes from no text embedder"):
        heddle.wrap(pipeline, engine, retriever=True).run({"meaning": {"query_embedding": [1.0]}})
