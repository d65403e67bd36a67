"""What a user does from Python, on real engines in lanes of their own."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

import heddle
from heddle import RAGraph, Server
from heddle.core.errors import Busy, Cancelled, DeadlineExceeded, HeddleError
from heddle.core.passages import Passage
from heddle.runtime.events import Answer, NodeFinished, NodeStarted, Retrieved, TokenDelta
from heddle.workflow.presets import ANSWER_TOKENS, PRESETS
from tests.end_to_end.conftest import KV_BYTES
from tests.helpers.server_state import eventually, holds_nothing, kill_lane

QUESTION = "Who is the keeper of Rock 3?"
# HedraRAG, Listing 1, word for word; two prompts that the column width broke are joined again.
LISTING_1 = """
from HedraRAG import RAGraph, START, END
from HedraRAG import Server
# HyDE-style workflow
g1 = RAGraph()
g1.add_generation(0, prompt="Generate a hypothesis for {input}.", output="hypopara")
g1.add_retrieval(1, topk=5, query="hypopara", output="docs")
g1.add_generation(2, prompt="Answer {query} using {docs}.")
g1.add_edge(START, 0); g1.add_edge(0, 1)
g1.add_edge(1, 2); g1.add_edge(2, END)
# Multistep-style workflow
g2 = RAGraph()
g2.add_generation(0, prompt="Decompose {input} into subquestions.", output="subquestion")
g2.add_retrieval(1, topk=2, query="subquestion", output="docs")
g2.add_generation(2, prompt="Answer {subquestion} using {docs}.")
g2.add_edge(START, 0); g2.add_edge(0, 1); g2.add_edge(1, 2)
g2.add_edge(2, lambda s: 1 if s.get("subquestion") else END)
# Server initiating and execution
s = Server(generator="Llama3-8B", index="IVF4096")
s.add_request("What is RAG?", g1)
s.add_request("Compare RAG with long-context models.", g2)
"""


def talker(max_tokens: int) -> RAGraph:
    """A generation that goes on for as long as it may."""
    return RAGraph("talker").add_generation("talk", "Tell of {query}.", max_tokens=max_tokens)


def test_invoke_answers_from_the_nearest_passages(server: Server):
    answer = server.app("oneshot").invoke(QUESTION)
    assert answer.text
    assert answer.passages[0].title == "The lighthouse of Rock 3"
    assert [p.distance for p in answer.passages] == sorted(p.distance for p in answer.passages)
    assert answer.receipt.generated_tokens == ANSWER_TOKENS
    assert answer.receipt.prompt_tokens > 100
    assert answer.slots["answer"] == answer.text


def test_a_stream_tells_all_and_ends_with_the_answer(server: Server):
    events = list(server.app("oneshot").stream(QUESTION))
    assert isinstance(events[-1], Answer)
    kinds = [type(event) for event in events]
    assert kinds[0] is NodeStarted
    assert kinds.count(Retrieved) == 1
    assert [e.node for e in events if isinstance(e, NodeFinished)] == ["retrieve", "answer"]
    text = "".join(e.text for e in events if isinstance(e, TokenDelta) and e.node == "answer")
    assert text == events[-1].text


def test_the_async_verbs(server: Server):
    async def run() -> tuple[Answer, list[object], list[Answer], Answer]:
        app = server.app("oneshot")
        first = await app.ainvoke(QUESTION)
        events = [event async for event in app.astream(QUESTION)]
        many = await app.abatch([QUESTION, QUESTION])
        handle = server.submit(app, {"input": QUESTION}, priority="interactive", deadline_s=60)
        return first, events, many, await handle

    first, events, many, last = asyncio.run(run())
    assert {answer.text for answer in (events[-1], *many, last)} == {first.text}


def test_batch_keeps_the_order(server: Server):
    questions = [f"Who is the keeper of Rock {number}?" for number in (7, 2, 9, 4)]
    answers = server.app("oneshot").batch(questions)
    assert [a.passages[0].title for a in answers] == [
        f"The lighthouse of Rock {number}" for number in (7, 2, 9, 4)
    ]
    eventually(lambda: holds_nothing(server))


@pytest.mark.parametrize("name", PRESETS)
def test_the_ready_made_workflows(server: Server, name: str):
    answer = server.app(name).invoke(QUESTION)
    assert answer.text
    assert answer.passages
    assert all(isinstance(passage, Passage) for passage in answer.passages)


def test_all_workflows_at_once(server: Server):
    names = [name for name in PRESETS for _ in range(3)]
    handles = [server.submit(name, QUESTION) for name in names]
    assert all(handle.result(timeout_s=120).text for handle in handles)
    eventually(lambda: holds_nothing(server))


def test_tools_run_between_nodes(server: Server):
    graph = RAGraph("tool")
    graph.add_retrieval("find", topk=3)
    graph.add_tool("count", lambda docs: f"{len(docs)} passages", ["docs"], output="counted")
    graph.add_generation("answer", "Say {counted} on {query}.", max_tokens=4)
    assert server.app(graph).invoke(QUESTION).slots["counted"] == "3 passages"


def test_a_tool_that_raises_fails_its_request_alone(server: Server):
    graph = RAGraph("broken").add_tool("divide", lambda query: 1 / 0, ["query"], output="x")
    graph.add_generation("answer", "Say {x}.", max_tokens=4)
    other = server.submit("oneshot", QUESTION)
    with pytest.raises(HeddleError, match="ZeroDivisionError"):
        server.app(graph).invoke(QUESTION)
    assert other.result(timeout_s=60).text


def test_listing_1_of_hedrarag_runs(model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    # Engines in this process: lanes of their own would only take longer to load.
    small = partial(Server, engine_host="inline", kv_cache_bytes=KV_BYTES)
    monkeypatch.setattr(heddle, "Server", small, raising=False)
    listing = LISTING_1.replace("from HedraRAG import", "from heddle import")
    listing = listing.replace('"Llama3-8B"', repr(str(model)))
    listing = listing.replace('"IVF4096"', repr(str(corpus)))
    *setup, hyde_line, multistep_line = listing.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(setup), names)
    with names["s"]:
        hyde = eval(hyde_line, names).result(timeout_s=120)
        multistep = eval(multistep_line, names).result(timeout_s=120)
    assert hyde.text
    assert len(hyde.slots["docs"]) == 5
    assert multistep.text
    assert multistep.slots["subquestion"]
    assert len(multistep.slots["docs"]) == 2


# -- taking requests back ---------------------------------------------------------------------


def test_cancel_in_mid_generation_frees_everything(server: Server):
    async def run() -> None:
        handle = server.submit(talker(1900), QUESTION)
        async for event in handle:
            if isinstance(event, TokenDelta):
                break
        await handle.cancel()
        assert handle.is_done
        with pytest.raises(Cancelled):
            await handle

    asyncio.run(run())
    eventually(lambda: holds_nothing(server))
    assert server.app("oneshot").invoke(QUESTION).text


def test_cancelling_the_task_that_awaits_is_the_same(server: Server):
    async def run() -> None:
        handle = server.submit(talker(1900), QUESTION)

        async def wait() -> Answer:
            return await handle

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)  # until the task awaits: what hasn't begun takes nothing back
        async for event in handle:
            if isinstance(event, TokenDelta):
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(Cancelled):
            await handle

    asyncio.run(run())
    eventually(lambda: holds_nothing(server))


def test_a_stream_that_is_left_is_cancelled(server: Server):
    for event in server.app(talker(1900)).stream(QUESTION):
        if isinstance(event, TokenDelta):
            break
    eventually(lambda: holds_nothing(server))


def test_a_deadline_ends_a_request_and_frees_everything(server: Server):
    with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.5 s"):
        server.app(talker(1900)).invoke(QUESTION, deadline_s=0.5)
    eventually(lambda: holds_nothing(server))


# -- losing a lane ----------------------------------------------------------------------------


def restarts(server: Server, name: str) -> int:
    return server.health()["lanes"][name]["restarts"]


@pytest.mark.numerics
def test_a_killed_retrieval_lane_costs_a_retry(server: Server):
    before = restarts(server, "retrieval")
    kill_lane(server, "retrieval")
    answers = server.app("oneshot").batch([QUESTION, QUESTION], deadline_s=120)
    assert [a.passages[0].title for a in answers] == ["The lighthouse of Rock 3"] * 2
    assert restarts(server, "retrieval") == before + 1
    assert server.health()["status"] == "ok"
    eventually(lambda: holds_nothing(server))


@pytest.mark.numerics
def test_a_killed_llm_lane_is_told_of_and_serves_the_next(server: Server):
    before = restarts(server, "llm")
    handle = server.submit(talker(1900), QUESTION)
    for event in handle:
        if isinstance(event, TokenDelta):
            break
    kill_lane(server, "llm")
    eventually(lambda: server.health()["status"] == "degraded")
    handle.cancel_soon()  # it would go on: see test_resumed_answers.py
    assert server.app("oneshot").invoke(QUESTION, deadline_s=120).text
    assert restarts(server, "llm") == before + 1
    assert server.health()["status"] == "ok"
    eventually(lambda: holds_nothing(server))


# -- a server without a model -----------------------------------------------------------------


def test_retrieval_alone_bounded_and_closed(corpus: Path):
    released = threading.Event()
    graph = RAGraph("search").add_retrieval("find", topk=2)
    slow = RAGraph("slow").add_tool("wait", lambda query: released.wait(60), ["query"], output="x")
    with Server(None, corpus, engine_host="inline", requests_max=1) as server:
        answer = server.app(graph).invoke(QUESTION)
        assert answer.passages[0].title == "The lighthouse of Rock 3"
        with pytest.raises(HeddleError, match="'answer' of workflow 'oneshot' needs prefilling"):
            server.app("oneshot").invoke(QUESTION)
        handle = server.submit(slow, QUESTION)
        with pytest.raises(Busy, match="1 of 1 requests"):
            server.app(graph).invoke(QUESTION)
        released.set()
        handle.result(timeout_s=30)
        assert server.app(graph).invoke(QUESTION).passages == answer.passages
        released.clear()
        left = server.submit(slow, QUESTION)
    with pytest.raises(Cancelled):
        left.result(timeout_s=5)
    released.set()
    for _ in range(2):
        server.close()
    with pytest.raises(HeddleError, match="closed"):
        server.app(graph).invoke(QUESTION)
