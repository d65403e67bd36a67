"""A wrapped graph: LangGraph drives as before, and each call knows its run, node and depth."""

import asyncio
from typing import Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="LangGraph is not installed: make setup-all")

from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import FakeListChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel, ValidationError

from heddle import wrap
from heddle.adapters.langchain import (
    ChatHeddle,
    HeddleEmbeddings,
    HeddleReranker,
    HeddleRetriever,
)
from heddle.adapters.values import ChatCall, ChatReply, SearchCall, ToolRequest
from heddle.app.chat.messages import chat_turns
from heddle.core.errors import ConfigError, DeadlineExceeded
from heddle.core.tasks import Priority
from tests.helpers.scripted_engine import ScriptedEngine


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    answer: str
    tries: int


ANSWER = ChatPromptTemplate.from_template("Answer from {context}.\n\nQuestion: {question}")


def program(model: Any, retriever: Any, reranker: Any = None) -> StateGraph:
    """Return a graph of five nodes with a condition and a loop, as tutorials write one."""
    chain = ANSWER | model | StrOutputParser()

    def retrieve(state: State) -> State:
        return {"documents": retriever.invoke(state["question"])}

    def rank(state: State) -> State:
        if reranker is None:
            return {}
        return {"documents": reranker.compress_documents(state["documents"], state["question"])}

    def clean(state: State) -> State:
        return {"documents": [d for d in state["documents"] if d.page_content]}

    def generate(state: State) -> State:
        context = "\n".join(d.page_content for d in state["documents"])
        return {"answer": chain.invoke({"context": context, "question": state["question"]})}

    def is_good(state: State) -> str:
        return "rewrite" if "?" in state["answer"] and not state.get("tries") else END

    def rewrite_now(state: State) -> State:
        reply = model.invoke(f"Rewrite: {state['question']}")
        return {"question": reply.content, "tries": state.get("tries", 0) + 1}

    builder = StateGraph(State)
    builder.add_node("retrieve", retrieve)
    builder.add_node("rank", rank)
    builder.add_node("clean", clean)
    builder.add_node("generate", generate)
    builder.add_node("rewrite", rewrite_now)
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "rank")
    builder.add_edge("rank", "clean")
    builder.add_edge("clean", "generate")
    builder.add_conditional_edges("generate", is_good, ["rewrite", END])
    builder.add_edge("rewrite", "retrieve")
    return builder


def written(call: ChatCall) -> str:
    text = call.messages[-1]["content"]
    if text.startswith("Rewrite"):
        return "Who built the mill"
    return "Who?" if text.endswith("who") else "It was Ann Reed."


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(written)


@pytest.fixture
def graph(engine: ScriptedEngine) -> Any:
    model = ChatHeddle(engine=engine)
    retriever, reranker = HeddleRetriever(engine=engine, k=2), HeddleReranker(engine=engine)
    builder = program(model, retriever, reranker)
    return wrap(builder.compile(checkpointer=InMemorySaver()), engine)


THREAD = {"configurable": {"thread_id": "1"}}
LOOPED = ["retrieve", "rank", "generate", "rewrite", "retrieve", "rank", "generate"]


def test_the_program_does_what_it_did_and_its_calls_are_one_run(graph, engine):
    plain = program(
        ChatHeddle(engine=engine),
        HeddleRetriever(engine=engine, k=2),
        HeddleReranker(engine=engine),
    ).compile()
    expected = plain.invoke({"question": "who"})
    assert {by for _, by in engine.calls} == {None}
    engine.calls.clear()
    found = graph.invoke({"question": "who"}, THREAD)
    assert found == expected
    assert engine.nodes == LOOPED
    assert len({by.caller.run for _, by in engine.calls}) == 1
    graph.invoke({"question": "when"}, THREAD)
    assert len({by.caller.run for _, by in engine.calls}) == 2


def test_calls_before_the_end_are_deeper(graph, engine):
    graph.invoke({"question": "when"}, THREAD)
    depth = {by.caller.node: by.caller.depth for _, by in engine.calls}
    # All of the loop's other primitives may follow: 2 of retrieve, 1 of rank, 2 + 2 of the models.
    assert depth == {"retrieve": 5, "rank": 6, "generate": 5}


def test_the_receipt_names_primitives_tools_calls_and_waits(graph):
    graph.invoke({"question": "who"}, THREAD)
    receipt = graph.receipts[-1]
    assert receipt.primitives_seen == {
        "retrieve": ("embedding", "searching"),
        "rank": ("reranking",),
        "generate": ("prompt", "prefilling", "decoding"),
        "rewrite": ("prefilling", "decoding"),
    }
    assert {node: tool.times for node, tool in receipt.tools.items()} == {"clean": 2}
    assert [call.node for call in receipt.calls] == LOOPED
    assert receipt.calls_count == 7
    assert receipt.waited_s == pytest.approx(1.0)
    assert receipt.calls[2].tokens == 5
    assert not receipt.error


def test_state_checkpoints_and_copies_work_as_before(graph):
    graph.invoke({"question": "who"}, THREAD)
    state = graph.get_state(THREAD)
    assert state.values["answer"] == "It was Ann Reed."
    assert state.next == ()
    history = list(graph.get_state_history(THREAD))
    assert len(history) == 11
    assert all("heddle" not in str(one.metadata) for one in history)
    graph.update_state(THREAD, {"answer": "changed"}, as_node="rewrite")
    assert graph.get_state(THREAD).next == ("retrieve",)
    again = graph.with_config({"tags": ["mine"]})
    again.invoke({"question": "when"}, THREAD)
    assert len(graph.receipts) == 2


def test_streams_have_their_tokens_updates_and_events(graph, engine):
    updates = [next(iter(part)) for part in graph.stream({"question": "when"}, THREAD)]
    assert updates == ["retrieve", "rank", "clean", "generate"]
    tokens = [
        (message.content, metadata["langgraph_node"])
        for message, metadata in graph.stream({"question": "when"}, THREAD, stream_mode="messages")
        if message.content
    ]
    assert [text for text, _ in tokens] == ["It ", "was ", "Ann ", "Reed."]
    assert {node for _, node in tokens} == {"generate"}


def test_async_streams_of_events(graph, engine):
    async def events() -> list[tuple[str, str]]:
        found = graph.astream_events({"question": "who"}, THREAD, version="v2")
        return [(one["event"], one["name"]) async for one in found]

    found = asyncio.run(events())
    assert ("on_retriever_end", "HeddleRetriever") in found
    assert ("on_chat_model_stream", "ChatHeddle") in found
    assert ("on_prompt_end", "ChatPromptTemplate") in found
    assert engine.nodes == LOOPED


def test_a_run_that_is_left_or_cancelled_ends_its_calls(engine):
    stream = wrap(
        program(ChatHeddle(engine=engine), HeddleRetriever(engine=engine)).compile(), engine
    ).stream({"question": "when"})
    next(stream)
    stream.close()
    assert len(engine.cancelled) == 1

    async def cancelled() -> None:
        engine.gate = asyncio.Event()

        async def think(state: State) -> State:
            reply = await model.ainvoke("go")
            return {"answer": reply.content}

        model = ChatHeddle(engine=engine)
        builder = StateGraph(State).add_node("think", think)
        graph = wrap(builder.add_edge(START, "think").compile(), engine)
        task = asyncio.create_task(graph.ainvoke({"question": "x"}))
        await asyncio.to_thread(engine.begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert graph.receipts[-1].error == "CancelledError"

    asyncio.run(cancelled())
    assert engine.left == 1
    assert len(engine.cancelled) == 2


def test_the_runs_deadline_and_class_go_with_each_call(engine):
    builder = program(ChatHeddle(engine=engine), HeddleRetriever(engine=engine))
    told: list[Any] = []
    graph = wrap(
        builder.compile(), engine, deadline_s=9.0, priority="interactive", on_receipt=told.append
    )
    graph.invoke({"question": "when"})
    left = [by.seconds_left for _, by in engine.calls]
    assert left == sorted(left, reverse=True)
    assert all(0 < one <= 9.0 for one in left)
    assert {by.priority for _, by in engine.calls} == {Priority.INTERACTIVE}
    assert [one.run for one in told] == [engine.calls[0][1].caller.run]


def test_models_and_retrievers_of_others_are_replaced_within_runs_alone(engine):
    store = InMemoryVectorStore(HeddleEmbeddings(engine=engine))
    store.add_texts(["their own passage"])
    model = FakeListChatModel(responses=["theirs"])
    retriever = store.as_retriever(search_kwargs={"k": 1})
    builder = program(model, retriever)
    graph = wrap(builder.compile(), engine, model=True, retriever=True)
    engine.calls.clear()
    found = graph.invoke({"question": "when"})
    assert found["answer"] == "It was Ann Reed."
    assert [d.metadata["document_id"] for d in found["documents"]] == ["mill"]
    assert engine.nodes == ["retrieve", "generate"]
    assert isinstance(engine.calls[0][0], SearchCall)
    assert engine.calls[0][0].topk == 1
    assert model.invoke("hello").content == "theirs"
    assert [d.page_content for d in retriever.invoke("x")] == ["their own passage"]
    assert isinstance(model, FakeListChatModel)
    assert type(model).__name__ == "FakeListChatModel"
    again = wrap(builder.compile(), engine, model=True)
    assert again.invoke({"question": "when"})["documents"][0].page_content == "their own passage"


class Tuned(FakeListChatModel):
    """A model with settings, as clients of servers have them."""

    temperature: float = 0.7
    max_tokens: int = 300
    stop: str = "THEIRS"


def test_what_a_stand_in_was_given_comes_before_what_it_stands_for_and_a_call_before_both(engine):
    store = InMemoryVectorStore(HeddleEmbeddings(engine=engine))
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"lang": "de"}})
    program_of_others = program(Tuned(responses=["theirs"]), retriever).compile()

    def asked(model: ChatHeddle, searcher: HeddleRetriever) -> tuple[SearchCall, ChatCall]:
        engine.calls.clear()
        wrap(program_of_others, model=model, retriever=searcher).invoke({"question": "when"})
        [(search, _), (chat, _)] = engine.calls
        return search, chat

    plain = ChatHeddle(engine=engine), HeddleRetriever(engine=engine)
    search, chat = asked(*plain)
    assert (search.topk, search.where) == (1, {"lang": "de"})
    assert (chat.temperature, chat.max_tokens, chat.stop) == (0.7, 300, ("THEIRS",))
    own = ChatHeddle(engine=engine, temperature=0, stop=["OURS"])
    search, chat = asked(own, HeddleRetriever(engine=engine, k=7, where={"lang": "en"}))
    assert (search.topk, search.where) == (7, {"lang": "en"})
    assert (chat.temperature, chat.max_tokens, chat.stop) == (0, 300, ("OURS",))

    def find(state: State) -> State:
        return {"documents": retriever.invoke(state["question"], k=3)}

    builder = StateGraph(State).add_node("find", find).add_edge(START, "find")
    engine.calls.clear()
    wrap(builder.compile(), retriever=HeddleRetriever(engine=engine, k=7)).invoke({"question": "x"})
    assert engine.calls[0][0].topk == 3


@pytest.mark.parametrize("is_async", [False, True])
def test_heddle_searches_where_a_node_asks_a_vector_store(engine, is_async):
    store = InMemoryVectorStore(HeddleEmbeddings(engine=engine))
    store.add_texts(["their own passage"])
    engine.calls.clear()

    def retrieve(state: State) -> State:
        found = store.similarity_search(state["question"], 2, filter={"lang": "de"})
        again = store.as_retriever(search_kwargs={"k": 3}).invoke(state["question"])
        return {"documents": found + again + store.search(state["question"], "similarity")}

    async def aretrieve(state: State) -> State:
        found = await store.asimilarity_search(state["question"], k=2, filter={"lang": "de"})
        again = await store.as_retriever(search_kwargs={"k": 3}).ainvoke(state["question"])
        last = await store.asearch(state["question"], "similarity")
        return {"documents": found + again + last}

    node = RunnableLambda(retrieve, aretrieve, name="retrieve")
    builder = StateGraph(State).add_node("retrieve", node).add_edge(START, "retrieve")
    graph = wrap(builder.compile(), engine, retriever=True)
    asked = {"question": "who"}
    found = asyncio.run(graph.ainvoke(asked)) if is_async else graph.invoke(asked)
    assert [(call.topk, call.where) for call, _ in engine.calls] == [
        (2, {"lang": "de"}),
        (3, None),
        (4, None),
    ]
    assert "their own passage" not in [one.page_content for one in found["documents"]]
    assert graph.receipts[-1].primitives_seen == {"retrieve": ("embedding", "searching")}
    assert [one.page_content for one in store.similarity_search("x")] == ["their own passage"]
    [(_, score)] = store.similarity_search_with_score("x")
    assert 0 <= score <= 1.001


def test_scores_of_a_store_in_whose_place_heddle_searches_are_refused(engine):
    store = InMemoryVectorStore(HeddleEmbeddings(engine=engine))

    def retrieve(state: State) -> State:
        return {"documents": [one for one, _ in store.similarity_search_with_score("who")]}

    builder = StateGraph(State).add_node("retrieve", retrieve).add_edge(START, "retrieve")
    graph = wrap(builder.compile(), engine, retriever=True)
    with pytest.raises(ConfigError, match="similarity_search_with_score can't be replaced: use"):
        graph.invoke({"question": "who"})
    assert not engine.calls


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"model": True},
            r"model= finds no chat model in a node \(retrieve: retriever is Heddle's",
        ),
        ({"retriever": True}, "retriever= finds no retriever or vector store in a node"),
    ],
)
def test_an_option_that_finds_no_component_is_refused(engine, options, words):
    retriever, model = HeddleRetriever(engine=engine), ChatHeddle(engine=engine)
    nodes = {
        "model": ("retrieve", lambda state: {"documents": retriever.invoke("x")}),
        "retriever": ("write", lambda state: {"answer": model.invoke("x").content}),
    }
    [option] = options
    name, node = nodes[option]
    builder = StateGraph(State).add_node(name, node).add_edge(START, name)
    with pytest.raises(ConfigError, match=words):
        wrap(builder.compile(), engine, **options)
    assert wrap(builder.compile(), engine, **{other: True for other in nodes if other != option})


class Year(BaseModel):
    year: int


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", ["updates", "messages"])
def test_a_form_is_read_in_streams_as_elsewhere(engine, mode, is_async):
    openai = pytest.importorskip("langchain_openai", reason="langchain-openai isn't installed")
    engine.write = lambda call: '{"year": 1823}'
    model = openai.ChatOpenAI(model="theirs", api_key="none", base_url="http://127.0.0.1:9")
    judge = model.with_structured_output(Year)

    def think(state: State) -> State:
        return {"tries": judge.invoke("When?").year}

    async def athink(state: State) -> State:
        return {"tries": (await judge.ainvoke("When?")).year}

    node = RunnableLambda(think, athink, name="think")
    builder = StateGraph(State).add_node("think", node).add_edge(START, "think")
    graph = wrap(builder.compile(checkpointer=InMemorySaver()), engine, model=True)

    async def stream() -> None:
        async for _ in graph.astream({}, THREAD, stream_mode=mode):
            pass

    if is_async:
        asyncio.run(stream())
    else:
        list(graph.stream({}, THREAD, stream_mode=mode))
    assert graph.get_state(THREAD).values == {"tries": 1823}
    [(call, _)] = engine.calls
    assert call.response_format["json_schema"]["schema"]["required"] == ["year"]


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_an_agents_turns_can_be_read_again_in_streams_of_version_3(engine):
    def write(call: ChatCall) -> str | ChatReply:
        chat_turns(call.messages)  # as the engine reads them
        if call.messages[-1]["role"] == "tool":
            return "It was Ann Reed."
        look = ToolRequest("call_1", "look", '{"year": "1823"}')
        return ChatReply("Let me look.", (look,), "tool_calls")

    def look(state: MessagesState) -> MessagesState:
        [call] = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage("the mill", tool_call_id=call["id"])]}

    engine.write = write
    model = ChatHeddle(engine=engine)
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("look", look).add_edge(START, "ask").add_edge("look", "ask")
    builder.add_conditional_edges(
        "ask", lambda state: "look" if state["messages"][-1].tool_calls else END, ["look", END]
    )
    graph = wrap(builder.compile(), engine)
    stream = graph.stream_events({"messages": [("user", "Who?")]}, version="v3")
    assert list(stream)
    assert [type(one).__name__ for one in stream.output["messages"]] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "AIMessage",
    ]
    told = engine.calls[1][0].messages[1]
    assert (told["content"], len(told["tool_calls"])) == ("Let me look.", 1)
    thought = AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes"}]
    )
    model.invoke(["Is it?", thought, "Sure?"])
    assert engine.calls[-1][0].messages[1]["content"] == "Yes"


def test_a_cut_answer_is_no_object(engine):
    engine.write = lambda call: ChatReply('{"year": 18', finish_reason="length")
    model = ChatHeddle(engine=engine)
    for schema in (Year, Year.model_json_schema()):
        with pytest.raises(OutputParserException, match="the answer is cut: raise max_tokens"):
            model.with_structured_output(schema).invoke("When?")
        with_raw = model.with_structured_output(schema, include_raw=True).invoke("When?")
        assert with_raw["parsed"] is None
        assert "is cut" in str(with_raw["parsing_error"])
    [*_, last] = model.with_structured_output(Year).stream("When?")
    assert last == Year(year=18), "streams give what is there until now"


def test_kept_answers_are_of_a_models_own_stops(engine):
    answers = iter(("one", "two"))
    engine.write = lambda call: next(answers)
    cache = InMemoryCache()
    models = [ChatHeddle(engine=engine, cache=cache, stop=stop) for stop in ([], [], ["x"])]
    assert [model.invoke("Who?").content for model in models] == ["one", "one", "two"]


class Whole(FakeMessagesListChatModel):
    """A model that writes its answers whole, and takes no run manager."""

    def _generate(self, messages: Any, stop: Any = None, **kwargs: Any) -> Any:
        return super()._generate(messages, stop, **kwargs)


class Plain(BaseRetriever):
    """A retriever of the plain form, which takes a query alone."""

    def _get_relevant_documents(self, query: str) -> list[Document]:
        return [Document(f"theirs of {query}")]


def test_what_is_replaced_in_runs_stays_what_it_was_where_it_can_do_less(engine):
    model, retriever = Whole(responses=[AIMessage("theirs")]), Plain()
    graph = wrap(program(model, retriever).compile(), engine, model=True, retriever=True)
    assert graph.invoke({"question": "when"})["answer"] == "It was Ann Reed."
    assert [document.page_content for document in retriever.invoke("x", k=3)] == ["theirs of x"]
    assert [part.content for part in model.stream("hello") if part.content] == ["theirs"]

    async def alone() -> list[str]:
        [found] = await retriever.ainvoke("y", k=3)
        said = [part.content async for part in model.astream("hello") if part.content]
        return [found.page_content, *said, (await model.ainvoke("hello")).content]

    assert asyncio.run(alone()) == ["theirs of y", "theirs", "theirs"]
    other = program(model, retriever).compile()
    streamed = list(other.stream({"question": "when"}, stream_mode="messages"))
    assert [part.content for part, _ in streamed] == ["theirs"]
    assert engine.nodes == ["retrieve", "generate"], "of the wrapped graph alone"


def test_nothing_to_schedule_is_an_error_that_names_what_was_looked_at(engine):
    model, retriever = FakeListChatModel(responses=["theirs"]), HeddleRetriever(engine=engine)
    alone = StateGraph(State).add_node("think", lambda s: {"answer": model.invoke("x").content})
    alone.add_node("clean", lambda s: {}).add_edge(START, "think").add_edge("think", "clean")
    words = r"think: model is a chat model that is not Heddle's \(FakeListChatModel\); clean: plain"
    with pytest.raises(ConfigError, match=words):
        wrap(alone.compile(), engine)
    with pytest.raises(ConfigError, match="nothing in the graph names an engine"):
        wrap(alone.compile())
    with pytest.raises(ConfigError, match="not compiled"):
        wrap(program(model, retriever), engine)
    with pytest.raises(ConfigError, match="'urgency' is no option"):
        wrap(program(model, retriever).compile(), engine, urgency=3)
    with pytest.raises(ConfigError, match=r"builtins\.dict is no program"):
        wrap({}, engine)
    with pytest.raises(ConfigError, match="a chain needs no wrap: put"):
        wrap(ANSWER | model, engine)
    for given in ("yes", retriever):
        with pytest.raises(ConfigError, match="model must be True or a ChatHeddle, got"):
            wrap(alone.compile(), engine, model=given)


@pytest.mark.parametrize("kind", [ChatHeddle, HeddleRetriever, HeddleReranker, HeddleEmbeddings])
def test_a_component_refuses_fields_that_it_does_not_have(kind, engine):
    with pytest.raises(ValidationError, match=r"tempo\s+Extra inputs are not permitted"):
        kind(engine=engine, tempo=3)


def test_documents_are_embedded_in_the_class_that_is_given(engine):
    HeddleEmbeddings(engine=engine).embed_documents(["a"])
    given = HeddleEmbeddings(engine=engine, priority="interactive")
    given.embed_documents(["a"])
    asyncio.run(given.aembed_documents(["a"]))
    classes = [call.priority for call, _ in engine.calls]
    assert classes == [None, Priority.INTERACTIVE, Priority.INTERACTIVE]


def test_graphs_in_graphs_are_one_run_with_names_of_both(engine):
    inner = program(ChatHeddle(engine=engine), HeddleRetriever(engine=engine)).compile()
    outer = StateGraph(State).add_node("research", inner).add_edge(START, "research")
    graph = wrap(outer.compile())
    graph.invoke({"question": "when"})
    assert engine.nodes == ["research.retrieve", "research.generate"]
    assert len({by.caller.run for _, by in engine.calls}) == 1
    assert set(graph.receipts[-1].primitives_seen) == {
        "research.retrieve",
        "research.generate",
        "research.rewrite",
    }


def with_own_thread(inner: Any) -> Any:
    """Return a graph whose one node calls another graph, which keeps a thread of its own."""

    def research(state: State) -> State:
        return inner.invoke(state, {"configurable": {"thread_id": "research"}})

    async def aresearch(state: State) -> State:
        return await inner.ainvoke(state, {"configurable": {"thread_id": "research"}})

    node = RunnableLambda(research, aresearch, name="research")
    builder = StateGraph(State).add_node("research", node).add_edge(START, "research")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_graph_within_that_has_a_thread_of_its_own_is_in_the_run(engine, is_async, is_wrapped):
    model = FakeListChatModel(responses=["theirs"])
    builder = program(model, HeddleRetriever(engine=engine))
    inner = builder.compile(checkpointer=InMemorySaver())
    # The inner graph's own stand-ins answer in the outer one's run, which has none.
    found = wrap(inner, engine, model=True) if is_wrapped else inner
    graph = wrap(with_own_thread(found), engine, **({} if is_wrapped else {"model": True}))
    if is_async:
        state = asyncio.run(graph.ainvoke({"question": "when"}, THREAD))
    else:
        state = graph.invoke({"question": "when"}, THREAD)
    assert state["answer"] == "It was Ann Reed."
    assert engine.nodes == ["research.retrieve", "research.generate"]
    assert len({by.caller.run for _, by in engine.calls}) == 1
    assert [by.caller.depth for _, by in engine.calls] == [0, 0]
    assert graph.receipts[-1].calls_count == 2
    assert inner.get_state({"configurable": {"thread_id": "research"}}).values == state
    assert model.invoke("hello").content == "theirs"


def test_a_chain_that_is_given_a_session_is_in_its_nodes_run(engine):
    chain = ANSWER | FakeListChatModel(responses=["theirs"]) | StrOutputParser()

    def think(state: State) -> State:
        told = {"context": "", "question": state["question"]}
        return {"answer": chain.invoke(told, {"configurable": {"session_id": "7"}})}

    builder = StateGraph(State).add_node("think", think).add_edge(START, "think")
    graph = wrap(builder.compile(), engine, model=True)
    assert graph.invoke({"question": "when"})["answer"] == "It was Ann Reed."
    assert engine.nodes == ["think"]


def test_an_error_of_the_engine_reaches_the_program(engine):
    def late(call: ChatCall) -> ChatReply:
        raise DeadlineExceeded("too late")

    engine.write = late
    graph = wrap(program(ChatHeddle(engine=engine), HeddleRetriever(engine=engine)).compile())
    with pytest.raises(DeadlineExceeded, match="too late"):
        graph.invoke({"question": "when"})
    assert graph.receipts[-1].error == "DeadlineExceeded"
    assert graph.receipts[-1].calls[-1].error == "DeadlineExceeded"
