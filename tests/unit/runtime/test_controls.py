"""Callable edges run on the runtime's thread: slow ones are named, broken ones end one request."""

import asyncio
import logging

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.ragraph import END, START, RAGraph


@pytest.fixture(autouse=True)
def _loud(_quiet):
    logging.disable(logging.NOTSET)


def looping(name, edge):
    graph = RAGraph(name).add_generation("write", "Write {query}", "draft")
    return graph.add_edge(START, "write").add_edge("write", edge).compile()


def slow_edge(bench, seconds, turns=1):
    def edge(state):
        bench.clock.time_s += seconds
        return END if state["turn"] == turns else "write"

    return edge


def test_a_slow_edge_is_named_once(bench, caplog):
    slow = looping("slow", slow_edge(bench, 0.06, turns=3))
    assert bench.submit(slow).answer
    assert bench.submit(slow).answer
    (record,) = caplog.records
    assert "workflow 'slow'" in record.message
    assert "after node 'write' took 60 ms" in record.message
    assert bench.submit(looping("other", slow_edge(bench, 1.0))).answer
    assert "workflow 'other'" in caplog.records[1].message


def test_a_quick_edge_is_not(bench, caplog):
    assert bench.submit(looping("quick", slow_edge(bench, 0.04))).answer
    assert not caplog.records


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, asyncio.CancelledError])
def test_an_edge_that_raises_ends_its_request_only(bench, search, error):
    def edge(state):
        raise error

    bench.vector.holds = lambda task: True
    good = bench.submit(search)
    bad = bench.submit(looping("bad", edge))
    assert isinstance(bad.error, WorkflowError)
    assert f"after node 'write' raised {error.__name__}" in str(bad.error)
    bench.vector.answer_all()
    bench.cycle()
    assert good.answer
    bench.assert_idle()


def test_a_join_puts_the_text_before_what_is_new_alone(bench):
    graph = RAGraph("notes").add_generation("fact", "Tell {query} {notes}", "fact")
    graph.add_join("note", ["notes", "fact"], "notes", before="- ")
    graph.add_edge(START, "fact").add_edge("fact", "note")
    graph.add_edge("note", lambda state: "fact" if state["turn"] < 4 else END, ["fact"])
    bench.llm.texts["fact"] = ["a", "b", "c", "a"]
    assert bench.submit(graph.compile()).answer.slots["notes"] == ("- a", "- b", "- c")
