"""Heddle's components for Haystack, on an engine that answers from a script."""

import asyncio
import json
from uuid import uuid4

import pytest

pytest.importorskip("haystack", reason="the client haystack-ai is not installed: make setup-all")

from haystack import Document, Pipeline
from haystack.components.generators.utils import _convert_streaming_chunks_to_chat_message
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.tools import Tool
from pydantic import BaseModel

from heddle.adapters.haystack import (
    HeddleChatGenerator,
    HeddleDocumentEmbedder,
    HeddleRanker,
    HeddleRetriever,
    HeddleTextEmbedder,
)
from heddle.adapters.values import ChatReply, Found, SearchCall, ToolRequest
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import ConfigError, InputError
from heddle.core.tasks import Priority
from tests.helpers.scripted_engine import ScriptedEngine

URL = "http://127.0.0.1:8321"
SAID = [ChatMessage.from_system("Be short."), ChatMessage.from_user("Who?")]
TOOL = Tool(
    "look", "Looks.", {"type": "object", "properties": {"year": {"type": "integer"}}}, print
)
CALL = ChatReply("", (ToolRequest("call_1", "look", '{"year": 1823}'),), "tool_calls", 7)


def seen(chunk: StreamingChunk) -> None:
    """Do nothing; a pipeline's file names it."""


@pytest.mark.parametrize("written", ["It was Ann Reed.", CALL])
@pytest.mark.parametrize("is_async", [False, True])
def test_the_chunks_of_a_stream_are_its_message(written, is_async):
    chunks: list[StreamingChunk] = []

    async def take(chunk: StreamingChunk) -> None:
        chunks.append(chunk)

    generator = HeddleChatGenerator(ScriptedEngine(lambda call: written), tools=[TOOL])
    if is_async:
        [message] = asyncio.run(generator.run_async(SAID, take))["replies"]
    else:
        [message] = generator.run(SAID, chunks.append)["replies"]
    joined = _convert_streaming_chunks_to_chat_message(chunks)
    assert (joined.text or "") == (message.text or "")
    assert joined.tool_calls == message.tool_calls
    assert joined.meta["finish_reason"] == message.meta["finish_reason"]
    assert joined.meta["usage"] == message.meta["usage"]
    assert [chunk.start for chunk in chunks].count(True) == 1
    assert message.meta["usage"]["prompt_tokens"] == 7


def test_a_call_has_the_options_of_both_places_and_the_tools():
    engine = ScriptedEngine()
    own = {"max_tokens": 9, "temperature": 0.5, "stop": "\n"}
    HeddleChatGenerator(engine, generation_kwargs=own, tools=[TOOL]).run(
        "Who?", generation_kwargs={"temperature": 0, "priority": "interactive", "user": "me"}
    )
    [(call, by)] = engine.calls
    assert by is None
    assert call.messages == [{"role": "user", "content": "Who?"}]
    assert (call.max_tokens, call.temperature, call.stop) == (9, 0, ("\n",))
    assert call.priority is Priority.INTERACTIVE
    assert call.tools[0]["function"]["name"] == "look"
    assert HeddleChatGenerator(engine).run([]) == {"replies": []}
    assert len(engine.calls) == 1


class Year(BaseModel):
    """When it was built."""

    year: int


def test_a_form_may_be_a_class_as_with_openai_s_generator():
    engine = ScriptedEngine()
    HeddleChatGenerator(engine, generation_kwargs={"response_format": Year}).run("When?")
    [(call, _)] = engine.calls
    form = json.loads(json.dumps(call.response_format))
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["required"] == ["year"]
    assert form["json_schema"]["schema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tempature": 1}, "did you mean 'temperature'"),
        ({"n": 2}, "n is 2: one answer"),
        ({"logprobs": True}, "'logprobs' is no option"),
        ({"priority": "urgent"}, "priority must be one of"),
    ],
)
def test_an_option_that_is_not_done_is_refused_by_its_name(options, words):
    with pytest.raises((InputError, ConfigError), match=words):
        HeddleChatGenerator(ScriptedEngine(), generation_kwargs=options).run("Who?")


def test_passages_become_documents_and_keep_their_place():
    engine = ScriptedEngine()
    retriever = HeddleRetriever(engine, top_k=1, hybrid=True)
    [document] = retriever.run("mill", filters={"field": "lang", "operator": "==", "value": "en"})[
        "documents"
    ]
    [(call, _)] = engine.calls
    assert (call.topk, call.hybrid, call.where) == (1, True, {"lang": "en"})
    assert (document.id, document.meta["title"]) == ("1", "mill")
    assert json.dumps(document.meta)


class Refusing(ScriptedEngine):
    """An engine that refuses each search."""

    words = ""

    def search(self, call: SearchCall, by: CallIdentity | None = None) -> Found:
        raise InputError(self.words)


def test_a_filter_that_fits_nothing_finds_nothing_and_is_logged_once(caplog):
    engine = Refusing()
    key = uuid4().hex  # a filter by its like was not told before
    engine.words = f"where: no passage has {key}=en"
    filters = {"field": f"meta.{key}", "operator": "==", "value": "en"}
    assert HeddleRetriever(engine).run("mill", filters) == {"documents": []}
    assert asyncio.run(HeddleRetriever(engine).run_async("mill", filters)) == {"documents": []}
    [told] = caplog.messages
    assert told.startswith(f"a filter by {key!r} fits no passage")
    engine.words = "topk must be an integer"
    with pytest.raises(InputError, match="topk must be"):
        HeddleRetriever(engine).run("mill")


def test_documents_are_ranked_and_cut():
    documents = [Document(content=text) for text in ("a", "b", "c")]
    ranker = HeddleRanker(ScriptedEngine(), top_k=2)
    ranked = ranker.run("which?", documents)["documents"]
    assert [(one.content, one.score) for one in ranked] == [("c", 1.0), ("b", 2 / 3)]
    assert len(asyncio.run(ranker.run_async("which?", documents, top_k=3))["documents"]) == 3
    assert ranker.run("which?", []) == {"documents": []}
    with pytest.raises(InputError, match=r"documents\.1 has no text"):
        ranker.run("which?", [documents[0], Document(content=None)])
    with pytest.raises(InputError, match="top_k must be at least 1"):
        ranker.run("which?", documents, top_k=0)


def test_queries_and_documents_are_embedded_each_in_their_way():
    engine = ScriptedEngine()
    embedded = HeddleTextEmbedder(engine, prefix="q: ").run("mill")
    assert embedded["embedding"] == [7.0, 1.0]
    documents = [Document(content="x" * n, meta={"title": "t"}) for n in range(70)]
    embedder = HeddleDocumentEmbedder(engine, meta_fields_to_embed=["title", "none"])
    found = embedder.run(documents)["documents"]
    assert [one.embedding[0] for one in found] == [n + 2.0 for n in range(70)]
    assert documents[0].embedding is None
    assert [len(call.texts) for call, _ in engine.calls] == [1, 64, 6]
    assert [call.role for call, _ in engine.calls] == ["query", "passage", "passage"]
    with pytest.raises(InputError, match="HeddleDocumentEmbedder"):
        HeddleTextEmbedder(engine).run(documents)


def test_a_pipeline_of_them_is_saved_and_loaded():
    pipeline = Pipeline()
    components = {
        "retriever": HeddleRetriever(URL, top_k=3, hybrid=True, tenant="a"),
        "ranker": HeddleRanker(URL, top_k=2),
        "model": HeddleChatGenerator(URL, generation_kwargs={"max_tokens": 5}, tools=[TOOL]),
        "streaming": HeddleChatGenerator(URL, streaming_callback=seen),
        "text_embedder": HeddleTextEmbedder(URL, prefix="q"),
        "document_embedder": HeddleDocumentEmbedder(URL, meta_fields_to_embed=["title"]),
    }
    for name, one in components.items():
        pipeline.add_component(name, one)
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["tests.*", "test_components"])
    assert loaded == pipeline
    assert loaded.get_component("streaming").streaming_callback is seen
    assert loaded.get_component("model").called.name == URL


def test_a_server_of_this_process_is_not_saved():
    pipeline = Pipeline()
    pipeline.add_component("model", HeddleChatGenerator(ScriptedEngine()))
    with pytest.raises(ConfigError, match="give the component the address"):
        pipeline.dumps()
