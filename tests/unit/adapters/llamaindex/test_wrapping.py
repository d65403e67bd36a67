"""What `heddle.wrap` makes of a query engine of LlamaIndex, on an engine that notes who calls."""

import asyncio
from typing import Any

import pytest

pytest.importorskip(
    "llama_index.llms.openai_like", reason="the client llama-index is not installed"
)

from llama_index.core import Document, SimpleKeywordTableIndex
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.callbacks.schema import EventPayload
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import LLMRerank, SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.llms.openai_like import OpenAILike

import heddle
from heddle.adapters.llamaindex import (
    CallRefused,
    HeddleLLM,
    HeddleReranker,
    HeddleRetriever,
)
from heddle.core.errors import ConfigError, InputError
from tests.helpers.llama_loop import llama_loop
from tests.helpers.scripted_engine import ScriptedEngine

__all__ = ["llama_loop"]

ALL = {"model": True, "retriever": True, "ranker": True}


def query_engine(**options: Any) -> RetrieverQueryEngine:
    """Return a query engine of others' components."""
    index = SimpleKeywordTableIndex.from_documents([Document(text="own words")], llm=MockLLM())
    return index.as_query_engine(llm=MockLLM(), **options)


def test_a_query_s_parts_call_at_their_place_and_the_rest_are_tools():
    engine = ScriptedEngine()
    parts = [SimilarityPostprocessor(similarity_cutoff=0.5), LLMRerank(llm=MockLLM(), top_n=1)]
    plain = query_engine(node_postprocessors=parts)
    wrapped = heddle.wrap(plain, engine, **ALL)
    response = wrapped.query("Who built the own mill?")
    assert str(response) == "It was Ann Reed."
    assert [node.node_id for node in response.source_nodes] == ["2"]
    [receipt] = wrapped.receipts
    places = [(by.caller.node, by.caller.depth) for _, by in engine.calls]
    assert places == [("retriever", 3), ("postprocessor_2", 2), ("synthesizer", 0)]
    assert {by.caller.run for _, by in engine.calls} == {receipt.run}
    assert receipt.tools["postprocessor_1"].times == 1
    assert receipt.primitives_seen["synthesizer"] == ("prompt", "prefilling", "decoding")
    assert "Ann Reed" not in str(plain.query("own words?"))
    assert str(asyncio.run(wrapped.aquery("Who?"))) == str(response)
    assert len(wrapped.receipts) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_callbacks_see_a_query_and_its_parts_as_without_heddle(is_async):
    def seen(wraps: bool) -> list[str]:
        handler = LlamaDebugHandler(print_trace_on_end=False)
        manager = CallbackManager([handler])
        documents = [Document(text="own words")]
        index = SimpleKeywordTableIndex.from_documents(
            documents, llm=MockLLM(), callback_manager=manager
        )
        model = MockLLM(callback_manager=manager)
        engine = RetrieverQueryEngine.from_args(
            index.as_retriever(), llm=model, callback_manager=manager
        )
        handler.flush_event_logs()
        asked = heddle.wrap(engine, ScriptedEngine(), retriever=True) if wraps else engine
        if is_async:
            asyncio.run(asked.aquery("Who wrote own words?"))
        else:
            asked.query("Who wrote own words?")
        [(_, ended)] = handler.get_event_pairs(CBEventType.QUERY)
        assert str(ended.payload[EventPayload.RESPONSE])
        return [event.event_type.value for event in handler.get_events()]

    missing = set(seen(wraps=False)) - set(seen(wraps=True))
    assert missing == set()


def test_heddle_writes_as_the_model_in_whose_place_it_stands():
    engine = ScriptedEngine()
    others = {"seed": 3, "stop": "END"}
    given = OpenAILike(
        model="m", temperature=0.0, max_tokens=7, additional_kwargs=others, context_window=900
    )
    index = SimpleKeywordTableIndex.from_documents([Document(text="own words")], llm=MockLLM())
    wrapped = heddle.wrap(index.as_query_engine(llm=given), engine, model=True)
    wrapped.query("own words?")
    [(call, _)] = engine.calls
    assert (call.max_tokens, call.temperature, call.seed, call.stop) == (7, 0.0, 3, ("END",))
    assert wrapped._response_synthesizer._llm.metadata.context_window == 900


def test_a_streamed_response_is_of_its_run_and_ends_it():
    engine = ScriptedEngine()
    wrapped = heddle.wrap(query_engine(streaming=True), engine, model=True, retriever=True)
    response = wrapped.query("Who?")
    assert not wrapped.receipts
    assert "".join(response.response_gen) == "It was Ann Reed."
    assert [call.node for call in wrapped.receipts[-1].calls] == ["retriever", "synthesizer"]

    async def read() -> str:
        streamed = await wrapped.aquery("Who?")
        return "".join([piece async for piece in streamed.async_response_gen()])

    assert asyncio.run(read()) == "It was Ann Reed."
    assert [receipt.calls_count for receipt in wrapped.receipts] == [2, 2]


def test_own_components_name_the_engine_and_failures_are_noted():
    def fail(call: Any) -> str:
        raise InputError("too long")

    engine = ScriptedEngine(fail)
    own = RetrieverQueryEngine.from_args(
        HeddleRetriever(engine),
        llm=HeddleLLM(engine=engine),
        node_postprocessors=[HeddleReranker(engine=engine, top_n=1)],
    )
    wrapped = heddle.wrap(own, priority="bulk")
    # LlamaIndex would take an InputError, a ValueError, for an answer that can't be read.
    with pytest.raises(CallRefused, match="InputError: too long"):
        wrapped.query("Who?")
    assert wrapped.receipts[-1].error == "CallRefused"
    assert set(wrapped.receipts[-1].primitives_seen) == {
        "retriever",
        "postprocessor_1",
        "synthesizer",
    }


def test_what_cannot_be_wrapped_is_refused_with_what_to_do():
    engine = ScriptedEngine()
    with pytest.raises(ConfigError, match=r"CompactAndRefine with MockLLM.*model=True"):
        heddle.wrap(query_engine(), engine)
    with pytest.raises(ConfigError, match="names an engine"):
        heddle.wrap(query_engine(), model=True)
    with pytest.raises(ConfigError, match="model must be True or a HeddleLLM"):
        heddle.wrap(query_engine(), engine, model=3)
    with pytest.raises(ConfigError, match="ranker= finds no postprocessor"):
        heddle.wrap(query_engine(), engine, model=True, ranker=True)
    with pytest.raises(ConfigError, match="wrapped already"):
        heddle.wrap(heddle.wrap(query_engine(), engine, model=True))
    with pytest.raises(ConfigError, match="is no RetrieverQueryEngine"):
        heddle.wrap(query_engine().retriever, engine)
