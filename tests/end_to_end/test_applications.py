"""The applications on real engines: they end, leave nothing behind, and are exact."""

import threading

import pytest

from heddle import RAGraph, Server
from heddle.core.errors import EngineError
from heddle.workflow.presets import ANSWER
from heddle.workflow.ready_made import ready_made
from heddle.workflow.workflow import Workflow
from tests.end_to_end.test_request_documents import brief
from tests.helpers.server_state import eventually, holds_nothing

QUESTION = "Who is the keeper of Rock 3?"
PATIENCE_S = 60.0


def recorded(text: str) -> list[object]:
    """Answer as a web search did once."""
    return [{"title": "Rock 3", "text": f"About: {text}", "url": "https://rocks.example"}]


def made(name: str) -> Workflow:
    return brief(ready_made(name, {"web_search": recorded}))


@pytest.mark.parametrize("name", ["search_engine", "agent", "flare"])
def test_speed_changes_no_answer(inline_server: Server, name: str):
    app = inline_server.app(made(name))
    plain = app.invoke(QUESTION, optimizations="off")
    fast = app.invoke(QUESTION, optimizations="exact")
    assert plain.text == fast.text
    assert plain.slots == fast.slots
    eventually(lambda: holds_nothing(inline_server))


def test_the_web_is_searched_where_the_judge_is_not_sure(inline_server: Server):
    answer = inline_server.app(made("search_engine")).invoke(QUESTION)
    assert [p.document_id for p in answer.passages] == ["https://rocks.example"]


def test_a_tool_that_hangs_ends_its_request_and_no_other(inline_server: Server):
    go_on = threading.Event()

    def hangs(query: str) -> str:
        go_on.wait(PATIENCE_S)
        return query

    graph = RAGraph("slow").add_tool("ask", hangs, ["query"], "found", timeout_s=0.2)
    graph.add_generation("answer", "{found}", max_tokens=2)
    handles = [inline_server.submit(graph, QUESTION) for _ in range(12)]
    other = inline_server.submit(brief(ready_made("oneshot")), QUESTION)
    for handle in handles:
        with pytest.raises(EngineError, match=r"ask.tool@0 failed: .* within its 0.2 s"):
            handle.result(timeout_s=PATIENCE_S)
    assert other.result(timeout_s=PATIENCE_S).text
    tool = RAGraph("quick").add_tool("ask", str.upper, ["query"], "found")
    tool.add_generation("answer", "{found}", max_tokens=2)
    assert inline_server.app(tool).invoke(QUESTION).slots["found"] == QUESTION.upper()
    go_on.set()
    eventually(lambda: holds_nothing(inline_server))


def test_one_call_of_a_tool_serves_several_requests(inline_server: Server):
    sizes: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    def lengths(calls: list[tuple[str]]) -> list[str]:
        sizes.append(len(calls))
        begun.set()
        go_on.wait(PATIENCE_S)
        return [str(len(text)) for (text,) in calls]

    graph = RAGraph("counted").add_tool("count", lengths, ["query"], "found", batch_max=64)
    graph.add_generation("answer", "{found}", max_tokens=2)
    app = inline_server.app(graph)
    handles = [app.submit("a" * n) for n in range(1, 30)]
    assert begun.wait(PATIENCE_S)
    go_on.set()
    found = [handle.result(timeout_s=PATIENCE_S).slots["found"] for handle in handles]
    assert found == [str(n) for n in range(1, 30)]
    assert len(sizes) < len(handles)
    assert sum(sizes) == len(handles)


def test_flare_searches_while_it_writes(inline_server: Server):
    graph = RAGraph("unsure").add_retrieval("retrieve", topk=2)
    graph.add_generation("answer", ANSWER, max_tokens=12, retrieve_below=0.99, retrievals_max=2)
    assert len(inline_server.app(graph).invoke(QUESTION).receipt.splices) == 2
    node = ready_made("flare").compile().nodes["answer"]
    assert node.decode_retrieval.pause.below == 0.4
