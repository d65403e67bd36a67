"""LangChain's and LangGraph's programs on a real engine, in this process and by its address."""

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any, Literal, TypedDict

import pytest

pytest.importorskip("langgraph", reason="LangGraph is not installed: make setup-all")

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

import heddle
from benchmarks.client_calls.serving import http_server
from heddle import Server
from heddle.adapters.engine import Engine, engine_of
from heddle.adapters.langchain import (
    ChatHeddle,
    HeddleEmbeddings,
    HeddleReranker,
    HeddleRetriever,
)
from heddle.adapters.values import ChatCall, ChatReply, SearchCall
from heddle.app.requests.call_identity import CallIdentity
from heddle.core.errors import (
    Busy,
    ConfigError,
    DeadlineExceeded,
    EngineError,
    InputError,
)
from heddle.core.tasks import Caller
from heddle.server.http import create_app
from tests.helpers.server_state import eventually, holds_nothing

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
QUESTION = "Who is the keeper of Rock 3?"
SAID = [{"role": "user", "content": "Describe the keeper."}]
LONG = ChatCall(SAID, max_tokens=1900, temperature=0)


@pytest.fixture(scope="module")
def url(inline_server: Server) -> Iterator[str]:
    with http_server(create_app(inline_server, {})) as found:
        yield found


@pytest.fixture(params=["in process", "by url"])
def engine(request: pytest.FixtureRequest, inline_server: Server, url: str) -> Engine:
    return engine_of(inline_server if request.param == "in process" else url)


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str
    tries: int


def program(engine: Any) -> StateGraph:
    model = ChatHeddle(engine=engine, temperature=0, max_tokens=8)
    retriever = HeddleRetriever(engine=engine, k=2)
    prompt = ChatPromptTemplate.from_template("From {context} answer: {question}")
    chain = prompt | model | StrOutputParser()

    def retrieve(state: State) -> State:
        return {"documents": retriever.invoke(state["question"])}

    def join(state: State) -> State:
        return {"tries": state.get("tries", 0) + 1}

    async def generate(state: State) -> State:
        context = "\n".join(d.page_content for d in state["documents"])
        asked = {"context": context, "question": state["question"]}
        return {"answer": await chain.ainvoke(asked)}

    def again(state: State) -> str:
        return "retrieve" if state["tries"] < 2 else END

    builder = StateGraph(State)
    for node in (retrieve, join, generate):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "retrieve").add_edge("retrieve", "join").add_edge("join", "generate")
    return builder.add_conditional_edges("generate", again, ["retrieve", END])


def test_a_wrapped_graph_is_one_run_whose_receipts_name_it(engine: Engine):
    async def run() -> tuple[Any, Any, Any]:
        told: list[Any] = []
        graph = heddle.wrap(
            program(engine).compile(checkpointer=InMemorySaver()), engine, on_receipt=told.append
        )
        plain = program(engine).compile()
        thread = {"configurable": {"thread_id": "1"}}
        found = await graph.ainvoke({"question": QUESTION}, thread)
        return found, await plain.ainvoke({"question": QUESTION}), told[0]

    found, plain, receipt = asyncio.run(run())
    assert found == plain
    assert found["documents"][0].metadata["title"] == "The lighthouse of Rock 3"
    assert [call.kind for call in receipt.calls] == ["search", "chat"] * 2
    assert receipt.calls[1].tokens == 8
    assert receipt.calls[3].cached_tokens > 0
    assert receipt.tools["join"].times == 2


def test_the_engine_knows_run_and_node(engine: Engine):
    by = CallIdentity(Caller("run-9", "answer", 3), 30.0)
    *pieces, reply = engine.chat(ChatCall(SAID, max_tokens=4, temperature=0), by)
    assert isinstance(reply, ChatReply)
    assert "".join(pieces) == reply.text
    assert (reply.receipt["run"], reply.receipt["caller"]) == ("run-9", "answer")
    assert reply.finish_reason == "length"
    found = engine.search(SearchCall(QUESTION, topk=1), by)
    assert found.receipt["run"] == "run-9"
    assert found.passages[0].place.end > 0


def test_both_ways_give_the_same(inline_server: Server, url: str):
    here, there = engine_of(inline_server), engine_of(url)
    call = SearchCall(QUESTION, topk=3, hybrid=True)
    assert here.search(call).passages == there.search(call).passages
    asked = ChatCall(SAID, max_tokens=12, temperature=0)
    assert [*here.chat(asked)][-1].text == [*there.chat(asked)][-1].text
    ours, theirs = (HeddleEmbeddings(engine=one) for one in (inline_server, url))
    assert ours.embed_query("light") == theirs.embed_query("light")
    assert len(ours.embed_documents(["a", "b"])) == 2
    assert asyncio.run(ours.aembed_documents(["a"])) == theirs.embed_documents(["a"])


def test_a_call_without_a_filter_keeps_the_retrievers(engine: Engine):
    retriever = HeddleRetriever(engine=engine, k=2, where={"source": "no such source"})
    for kept in ({}, {"filter": None}):
        assert retriever.invoke(QUESTION, **kept) == []
    assert len(retriever.invoke(QUESTION, filter={})) == 2, "a filter that takes every document"


def test_leaving_a_stream_frees_what_it_held(engine: Engine, inline_server: Server):
    stream = engine.chat(LONG)
    next(stream)
    stream.close()
    eventually(lambda: holds_nothing(inline_server))

    async def cancelled() -> None:
        async def read() -> None:
            async for _ in engine.achat(LONG):
                begun.set()

        begun = asyncio.Event()
        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    eventually(lambda: holds_nothing(inline_server))


def test_a_graph_that_is_left_ends_what_its_threads_wait_for(engine: Engine, inline_server: Server):
    model = ChatHeddle(engine=engine, max_tokens=1900)

    def think(state: State) -> State:
        return {"answer": model.invoke("Go on.").content}

    graph = heddle.wrap(StateGraph(State).add_node(think).add_edge(START, "think").compile())
    stream = graph.stream({"question": "x"}, stream_mode="messages")
    next(stream)
    stream.close()
    eventually(lambda: holds_nothing(inline_server))
    assert graph.receipts[-1].error == "GeneratorExit"


def test_errors_are_those_of_the_engine_either_way(engine: Engine):
    with pytest.raises(InputError, match=r"messages.0.content.0: a part of type 'image_url'"):
        next(iter(engine.chat(ChatCall([{"role": "user", "content": [{"type": "image_url"}]}]))))
    with pytest.raises(InputError, match="query"):
        engine.search(SearchCall(""))
    with pytest.raises(DeadlineExceeded):
        engine.search(SearchCall("x"), CallIdentity(Caller("run-1"), 0.0))
    with pytest.raises(DeadlineExceeded):
        list(engine.chat(LONG, CallIdentity(Caller("run-1"), 0.2)))
    with pytest.raises(InputError, match=r"documents\[0\]|body"):
        HeddleReranker(engine=engine).compress_documents([Document("\ud800")], "x")


def test_ranked_documents_keep_what_they_say(engine: Engine):
    texts = ["The mill stands by the river.", "Ida Moss keeps the light of Rock 3."]
    documents = [Document(text, metadata={"n": n}) for n, text in enumerate(texts)]
    ranker = HeddleReranker(engine=engine, top_n=1)
    [best] = ranker.compress_documents(documents, "Who keeps the light?")
    assert best.page_content == texts[1]
    assert best.metadata["n"] == 1
    assert 0 < best.metadata["relevance_score"] <= 1
    assert asyncio.run(ranker.acompress_documents(documents, "Who keeps the light?")) == [best]


def test_an_address_without_a_server(unused_port: int):
    engine = engine_of(f"http://127.0.0.1:{unused_port}")
    with pytest.raises(EngineError, match="is `heddle serve` started there"):
        engine.search(SearchCall("x"))
    with pytest.raises(ConfigError, match="is no address of a server"):
        engine_of("localhost:8000")
    with pytest.raises(ConfigError, match=r"engine must be a heddle\.Server"):
        engine_of(3)


@pytest.fixture
def unused_port() -> Iterator[int]:
    import socket

    with socket.socket() as taken:  # bound, and never listening
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_tools_and_forms(engine: Engine):
    pytest.importorskip("llguidance")

    @tool
    def look(year: Literal["1822", "1872"]) -> str:
        """Look a year up."""
        return year

    class Verdict(BaseModel):
        is_good: bool

    model = ChatHeddle(engine=engine, temperature=0, max_tokens=256)
    called = model.bind_tools([look], tool_choice="any").invoke("Which year?")
    assert [one["name"] for one in called.tool_calls] == ["look"]
    assert called.tool_calls[0]["args"]["year"] in ("1822", "1872")
    verdict = model.with_structured_output(Verdict)
    assert isinstance(verdict.invoke("Is it good?"), Verdict)
    assert isinstance(asyncio.run(verdict.ainvoke("Is it good?")), Verdict)
    whole = [*model.bind_tools([look], tool_choice="look").stream("Which year?")]
    joined = sum(whole[1:], whole[0])
    assert joined.tool_calls[0]["name"] == "look"
    assert joined.response_metadata["finish_reason"] == "tool_calls"


def test_a_busy_server_says_when_to_come_again(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise Busy("full", wait_s=2.5)

    monkeypatch.setattr(Server, "submit", full)
    with pytest.raises(Busy) as refused:
        engine.search(SearchCall("x"))
    assert refused.value.wait_s == 2.5


def test_another_model_by_openais_client_is_replaced(inline_server: Server):
    openai = pytest.importorskip("langchain_openai")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = openai.ChatOpenAI(
            model="gpt-x", base_url="http://127.0.0.1:1/v1", api_key="any", temperature=0
        )

    class Verdict(BaseModel):
        is_good: bool

    judge = model.with_structured_output(Verdict)

    def think(state: State) -> State:
        reply = model.bind(max_tokens=6).invoke("Go on.")
        verdict = judge.invoke("Is it good?")
        assert isinstance(verdict, Verdict)
        return {"answer": reply.content}

    plain = StateGraph(State).add_node(think).add_edge(START, "think").compile()
    graph = heddle.wrap(plain, inline_server, model=True)
    found = graph.invoke({"question": "x"})
    [first, second] = graph.receipts[-1].calls
    assert (first.tokens, first.kind, second.kind) == (6, "chat", "chat")
    assert found["answer"]
