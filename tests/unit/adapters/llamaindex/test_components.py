"""Heddle's components for LlamaIndex, on an engine that answers from a script."""

import asyncio
import json

import pytest

pytest.importorskip("llama_index.core", reason="the client llama-index-core is not installed")

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from pydantic import BaseModel

from heddle.adapters.llamaindex import (
    CallRefused,
    HeddleEmbedding,
    HeddleLLM,
    HeddleReranker,
    HeddleRetriever,
)
from heddle.adapters.llamaindex.filters import where_of_filters
from heddle.adapters.values import ChatReply, ToolRequest
from heddle.core.errors import InputError
from tests.helpers.llama_loop import llama_loop
from tests.helpers.scripted_engine import ScriptedEngine

__all__ = ["llama_loop"]

URL = "http://127.0.0.1:8321"
TEXT = "It was Ann Reed."
SAID = [ChatMessage("Be short.", role="system"), ChatMessage("Who?")]
CALL = ChatReply("", (ToolRequest("call_1", "Year", '{"year": 1823}'),), "tool_calls", 7)


class Year(BaseModel):
    """When it was built."""

    year: int


def test_the_eight_verbs_say_the_same():
    llm = HeddleLLM(engine=ScriptedEngine(), max_tokens=9)
    whole = [llm.chat(SAID).message.content, llm.complete("Who?").text]
    streamed = [list(llm.stream_chat(SAID)), list(llm.stream_complete("Who?"))]

    async def ask() -> None:
        whole.append((await llm.achat(SAID)).message.content)
        whole.append((await llm.acomplete("Who?")).text)
        streamed.append([part async for part in await llm.astream_chat(SAID)])
        streamed.append([part async for part in await llm.astream_complete("Who?")])

    asyncio.run(ask())
    assert whole == [TEXT] * 4
    for parts in streamed:
        assert "".join(part.delta for part in parts) == TEXT
        assert parts[-1].raw["usage"]["total_tokens"] == 12
    assert llm.chat(SAID).additional_kwargs["completion_tokens"] == 5


def test_a_call_s_options_come_before_the_model_s_own():
    engine = ScriptedEngine()
    llm = HeddleLLM(engine=engine, max_tokens=9, stop=["\n"])
    llm.chat(SAID, max_tokens=3, deadline_s=2.0)
    [(call, _)] = engine.calls
    assert (call.max_tokens, call.stop, call.deadline_s) == (3, ("\n",), 2.0)
    assert call.messages[0] == {"role": "system", "content": "Be short."}
    with pytest.raises(CallRefused, match="did you mean 'temperature'"):
        llm.chat(SAID, tempature=1)
    with pytest.raises(CallRefused, match=r"messages\.0: a ImageBlock can't be read"):
        llm.chat([ChatMessage(blocks=[ImageBlock(url="http://x/y.png")])])


def test_a_program_gets_its_object_by_a_call_of_a_tool():
    engine = ScriptedEngine(lambda call: CALL)
    program = FunctionCallingProgram.from_defaults(
        output_cls=Year, prompt_template_str="When? {q}", llm=HeddleLLM(engine=engine)
    )
    assert program(q="mill") == Year(year=1823)
    [(call, _)] = engine.calls
    assert (call.tool_choice, call.parallel_tool_calls) == ("required", False)
    assert call.tools[0]["function"]["name"] == "Year"


def test_an_object_comes_in_streams_as_elsewhere():
    llm = HeddleLLM(engine=ScriptedEngine(lambda call: CALL))
    prompt = PromptTemplate("When?")
    *_, last = llm.stream_structured_predict(Year, prompt)
    assert last.model_dump() == {"year": 1823}

    async def stream() -> list[BaseModel]:
        return [one async for one in await llm.astream_structured_predict(Year, prompt)]

    assert asyncio.run(stream())[-1] == last
    assert json.dumps(llm.chat(SAID).message.additional_kwargs)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("Year", {"type": "function", "function": {"name": "Year"}}),
        ("auto", "auto"),
        (None, "required"),
    ],
)
def test_a_tool_may_be_chosen_by_its_name_alone(choice, sent):
    engine = ScriptedEngine(lambda call: CALL)
    tool = FunctionTool.from_defaults(lambda year: year, name="Year", description="Looks.")
    llm = HeddleLLM(engine=engine)
    llm.chat_with_tools([tool], "When?", tool_required=True, tool_choice=choice)
    assert engine.calls[-1][0].tool_choice == sent


def test_calls_and_their_results_go_back_to_the_model():
    engine = ScriptedEngine(lambda call: CALL)
    llm = HeddleLLM(engine=engine)
    tool = FunctionTool.from_defaults(lambda year: year, name="Year", description="Looks.")
    response = llm.chat_with_tools([tool], "When?")
    [selection] = llm.get_tool_calls_from_response(response)
    assert (selection.tool_id, selection.tool_kwargs) == ("call_1", {"year": 1823})
    result = ChatMessage("1823", role="tool", additional_kwargs={"tool_call_id": "call_1"})
    llm.chat([*SAID, response.message, result])
    told = engine.calls[-1][0].messages[2:]
    assert json.loads(told[0]["tool_calls"][0]["function"]["arguments"]) == {"year": 1823}
    assert told[1] == {"role": "tool", "content": "1823", "tool_call_id": "call_1"}
    said = HeddleLLM(engine=ScriptedEngine()).chat(SAID)
    with pytest.raises(InputError, match="called no tool"):
        llm.get_tool_calls_from_response(said)


def test_queries_and_texts_are_embedded_each_in_their_way():
    engine = ScriptedEngine()
    embedding = HeddleEmbedding(engine=engine, embed_batch_size=2)
    assert embedding.get_query_embedding("mill") == [4.0, 1.0]
    assert embedding.get_text_embedding_batch(["a", "bb", "ccc"]) == [[1.0, 1], [2.0, 1], [3.0, 1]]
    assert asyncio.run(embedding.aget_text_embedding("dddd")) == [4.0, 1.0]
    assert [call.role for call, _ in engine.calls] == ["query", *["passage"] * 3]


def test_passages_become_nodes_and_are_ranked():
    engine = ScriptedEngine()
    filters = MetadataFilters(filters=[MetadataFilter(key="lang", value="en")])
    nodes = HeddleRetriever(engine, similarity_top_k=2, filters=filters).retrieve("mill")
    [(call, _)] = engine.calls
    assert (call.topk, call.where) == (2, {"lang": "en"})
    assert [node.node_id for node in nodes] == ["1", "2"]
    assert json.dumps(nodes[0].metadata)
    assert nodes[0].get_content("llm").startswith("title: mill\n\nAnn Reed")
    reranker = HeddleReranker(engine=engine, top_n=1)
    [best] = reranker.postprocess_nodes(nodes, query_str="Who runs it?")
    assert (best.node_id, best.score) == ("2", 1.0)
    assert asyncio.run(reranker.apostprocess_nodes([], query_str="Who?")) == []
    with pytest.raises(InputError, match="nodes are ranked by a query"):
        reranker.postprocess_nodes([NodeWithScore(node=TextNode(text="a"))])


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ([MetadataFilter(key="year", value=2020, operator=FilterOperator.GT)], "operator '>'"),
        ([MetadataFilter(key="a", value=1), MetadataFilter(key="a", value=2)], "compared twice"),
        ([MetadataFilters(filters=[], condition=FilterCondition.OR)], "'or' can't be"),
    ],
)
def test_what_no_search_can_do_is_refused_by_its_operator(filters, words):
    with pytest.raises(InputError, match="filters: ") as caught:
        where_of_filters(MetadataFilters(filters=filters))
    assert words in str(caught.value)


def test_components_are_saved_by_their_address_and_without_their_key():
    llm = HeddleLLM(engine=URL, api_key="secret", max_tokens=4)
    saved = llm.to_json()
    assert "secret" not in saved
    loaded = HeddleLLM.from_json(saved)
    assert (loaded.max_tokens, loaded.called.name) == (4, URL)
    assert HeddleEmbedding.from_dict(HeddleEmbedding(engine=URL).to_dict()).engine == URL
    with pytest.raises(Exception, match="give the component the address"):
        HeddleReranker(engine=ScriptedEngine()).to_dict()
    with pytest.raises(CallRefused, match="ConfigError: engine must be a heddle"):
        HeddleLLM(engine=3).chat(SAID)


def test_a_message_keeps_what_it_holds():
    message = HeddleLLM(engine=ScriptedEngine(lambda call: CALL)).chat(SAID).message
    assert [type(block) for block in message.blocks] == [TextBlock, ToolCallBlock]
