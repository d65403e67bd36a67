"""LlamaIndex's programs on a real engine, in this process and by its address."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="the client llama-index-core is not installed")

from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import RetrieverQueryEngine

import heddle
from benchmarks.client_calls.serving import http_server
from heddle import Server
from heddle.adapters.llamaindex import (
    CallRefused,
    HeddleEmbedding,
    HeddleLLM,
    HeddleReranker,
    HeddleRetriever,
)
from heddle.server.http import create_app
from tests.helpers.llama_loop import llama_loop
from tests.helpers.server_state import eventually, holds_nothing

__all__ = ["llama_loop"]

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
QUESTION = "Who is the keeper of Rock 3?"
PROMPT = PromptTemplate("{context_str}\n\nQuestion: {query_str}")


@pytest.fixture(scope="module")
def url(inline_server: Server) -> Iterator[str]:
    with http_server(create_app(inline_server, {})) as found:
        yield found


@pytest.fixture(params=["in process", "by url"])
def engine(request: pytest.FixtureRequest, inline_server: Server, url: str) -> Any:
    return inline_server if request.param == "in process" else url


def others(**options: Any) -> RetrieverQueryEngine:
    """Return a query engine of others' components over a document that answers nothing."""
    index = VectorStoreIndex.from_documents(
        [Document(text="none")], embed_model=MockEmbedding(embed_dim=4)
    )
    return index.as_query_engine(llm=MockLLM(), text_qa_template=PROMPT, **options)


def test_a_wrapped_query_engine_answers_as_its_own_components(engine: Any):
    llm = HeddleLLM(engine=engine, temperature=0, max_tokens=8)
    own = RetrieverQueryEngine.from_args(
        HeddleRetriever(engine, similarity_top_k=2),
        llm=llm,
        text_qa_template=PROMPT,
        node_postprocessors=[HeddleReranker(engine=engine, top_n=1)],
    )
    plain = others(similarity_top_k=2, node_postprocessors=[LLMRerank(llm=MockLLM(), top_n=1)])
    wrapped = heddle.wrap(plain, engine, model=llm, retriever=True, ranker=True)
    by_hand, found = own.query(QUESTION), wrapped.query(QUESTION)
    assert found.source_nodes == by_hand.source_nodes
    assert found.source_nodes[0].metadata["title"] == "The lighthouse of Rock 3"
    assert str(found) == str(by_hand) == str(asyncio.run(wrapped.aquery(QUESTION)))
    receipt = wrapped.receipts[0]
    kinds = {kind for kinds in receipt.primitives_seen.values() for kind in kinds}
    assert kinds == {"embedding", "searching", "reranking", "prompt", "prefilling", "decoding"}
    assert [call.node for call in receipt.calls] == ["retriever", "postprocessor_1", "synthesizer"]


def test_streams_say_what_calls_say_and_count_their_tokens(engine: Any):
    llm = HeddleLLM(engine=engine, temperature=0, max_tokens=8)
    said = [ChatMessage(QUESTION)]

    async def read() -> list[str]:
        return [part.delta async for part in await llm.astream_chat(said)]

    whole = llm.chat(said)
    *_, last = parts = list(llm.stream_chat(said))
    assert (
        "".join(part.delta for part in parts)
        == whole.message.content
        == "".join(asyncio.run(read()))
    )
    assert last.raw["usage"] == whole.raw["usage"]
    assert whole.raw["usage"]["completion_tokens"] == 8
    assert (whole.raw["finish_reason"], whole.raw["heddle"]["receipt"]["generated_tokens"]) == (
        "length",
        8,
    )


def test_a_stream_that_is_left_ends_its_request(engine: Any, inline_server: Server):
    stream = HeddleLLM(engine=engine, max_tokens=1900).stream_chat([ChatMessage("Tell.")])
    next(stream)
    stream.close()
    eventually(lambda: holds_nothing(inline_server))


def test_an_index_with_the_server_s_embedder_finds_what_is_near(engine: Any, inline_server: Server):
    texts = ["Oats are ground in a mill.", "The ferry leaves at high water."]
    embedding = HeddleEmbedding(engine=engine)
    index = VectorStoreIndex.from_documents(
        [Document(text=t) for t in texts], embed_model=embedding
    )
    [nearest] = index.as_retriever(similarity_top_k=1).retrieve("When does the boat leave?")
    assert nearest.text == texts[1]
    [row] = inline_server.embed(["a"], role="query").values.tolist()
    assert embedding.get_query_embedding("a") == pytest.approx(row, abs=1e-5)


def test_what_the_engine_refuses_is_no_empty_response(engine: Any):
    wrapped = heddle.wrap(others(), engine, model=HeddleLLM(engine=engine, context_window=100_000))
    with pytest.raises(CallRefused, match=r"context_tokens_max|maximum context"):
        wrapped.query("word " * 5_000)
