"""Passages that a model reads: quoted from, and put into another order."""

import json

import numpy as np
import pytest

from heddle.core.errors import ConfigError, EngineError, InternalError
from heddle.core.quotations import NOT_FOUND, Quotations
from heddle.core.results import Extracted, Reranked
from heddle.runtime.events import NodeFinished, NodeStarted, Retrieved
from heddle.workflow.presets import quote
from heddle.workflow.ragraph import END, START, RAGraph
from tests.helpers.fake_ports import Bench


@pytest.fixture(scope="module")
def quoting():
    """Find three passages, quote from them."""
    return quote(topk=3).compile()


@pytest.fixture(scope="module")
def ranking():
    """Find three passages, keep two, answer."""
    graph = RAGraph("ranking")
    graph.add_retrieval("find", topk=3, rerank=2)
    graph.add_generation("answer", "{docs}{query}")
    return graph.compile()


def test_the_best_quote_is_the_answer(bench, quoting):
    call = bench.submit(quoting)
    answer = call.answer
    # The fake engine quotes an "x" from each passage, and the last passage is the best.
    assert answer.text == "x"
    assert [q.passage.chunk_id for q in answer.quotes] == [5, 4]
    assert [p.chunk_id for p in answer.passages] == [5, 4, 3]
    assert [p.score for p in answer.passages] == [1.5, 0.5, -0.5]
    assert answer.nearest == ()
    assert (answer.quotes[0].start, answer.quotes[0].end) == (0, 1)
    assert answer.quotes[0].sentence == "x5"
    assert isinstance(answer.slots["quotes"], Quotations)
    assert (answer.receipt.passages_read, answer.receipt.tokens_read) == (3, 3)
    bench.assert_idle()


def test_the_node_that_quotes_is_told_of(bench, quoting):
    events = bench.submit(quoting).events
    assert NodeStarted("quote", 0) in events
    assert events.index(NodeFinished("quote", 0)) == len(events) - 2


def test_the_engine_gets_question_titles_and_texts(bench, quoting):
    bench.submit(quoting)
    [task] = bench.reading.tasks()
    assert task.payload.question == "why"
    assert [tuple(text) for text in task.payload.passages] == [
        ("t3", "x3"),
        ("t4", "x4"),
        ("t5", "x5"),
    ]
    assert task.payload.quotes_max == 3


def test_below_the_threshold_nothing_is_found(bench, quoting):
    bench.reading.holds = lambda task: True
    call = bench.submit(quoting)
    [task] = bench.reading.tasks()
    result = bench.reading.result(task)
    bench.reading.answer(
        task.task_id, Extracted(result.quotes, result.scores, threshold=result.quotes[0].score + 1)
    )
    bench.cycle()
    assert call.answer.text == NOT_FOUND
    assert call.answer.quotes == ()
    assert [q.passage.chunk_id for q in call.answer.nearest] == [5, 4, 3]


def test_a_search_without_hits_finds_nothing(bench, quoting):
    bench.vector.holds = lambda task: True
    call = bench.submit(quoting)
    [task] = bench.vector.tasks()
    hits = bench.vector.result(task)
    hits.labels[:] = -1
    bench.vector.answer(task.task_id, hits)
    bench.cycle()
    assert call.answer.text == NOT_FOUND
    assert call.answer.nearest == call.answer.passages == ()
    bench.assert_idle()


def test_passages_that_no_way_has_led_to_are_none(bench):
    graph = RAGraph("maybe").add_generation("judge", "Is {query} easy?", "verdict")
    graph.add_retrieval("find").add_extraction("quote")
    graph.add_edge(START, "judge").add_edge("find", "quote")
    graph.add_edge("judge", lambda state: "quote", ["find", "quote"])
    answer = bench.submit(graph.compile()).answer
    assert answer.text == NOT_FOUND
    assert answer.nearest == answer.passages == ()
    bench.assert_idle()


def test_reranked_passages_are_shown_the_best_first(bench, ranking):
    call = bench.submit(ranking)
    prompt = bench.llm.tasks()[0].payload
    shown = "".join(map(chr, prompt.token_ids))
    assert "x5" in shown
    assert shown.index("x5") < shown.index("x4")
    assert "x3" not in shown
    assert [p.chunk_id for p in call.answer.passages] == [5, 4]
    orders = [e.passages for e in call.events if isinstance(e, Retrieved)]
    assert [[p.chunk_id for p in order] for order in orders] == [[3, 4, 5], [5, 4]]
    assert call.answer.receipt.passages_read == 3
    bench.assert_idle()


def test_the_scores_of_an_engine_that_answers_with_numpy_s_are_plain_numbers(bench, ranking):
    bench.reading.holds = lambda task: True
    call = bench.submit(ranking)
    [task] = bench.reading.tasks()
    scores = tuple(map(np.float32, (1.5, 0.5, 2.5)))
    bench.reading.answer(task.task_id, Reranked(scores))
    bench.cycle()
    assert json.dumps([p.score for p in call.answer.passages]) == "[2.5, 1.5]"


def test_rounds_of_a_loop_collect_reranked_passages(bench):
    graph = RAGraph("collecting")
    graph.add_retrieval("find", query="{query} {answer}", topk=2, rerank=1, collect=True)
    graph.add_generation("answer", "{docs}{query}", output="answer")
    graph.add_edge(START, "find").add_edge("find", "answer")
    graph.add_edge("answer", lambda state: "find" if state["turn"] < 2 else END)
    bench.llm.texts = {"answer": ["longer than before", "done"]}
    call = bench.submit(graph.compile())
    assert len(call.answer.passages) == 2
    assert call.answer.receipt.passages_read == 4


def test_a_lost_lane_reads_again(bench, quoting):
    bench.reading.holds = lambda task: True
    call = bench.submit(quoting)
    bench.reading.lose_lane()
    bench.reading.holds = lambda task: False
    bench.cycle()
    assert call.answer.text == "x"
    assert call.answer.receipt.retries == 1
    bench.assert_idle()


def test_a_failing_engine_is_the_end_of_the_request(quoting):
    bench = Bench()
    bench.reading.on_admit = lambda task: bench.reading.fail(task.task_id) or ()
    call = bench.submit(quoting)
    assert isinstance(call.error, EngineError)
    bench.assert_idle()


def test_scores_of_other_passages_are_a_bug(bench, ranking):
    bench.reading.holds = lambda task: True
    call = bench.submit(ranking)
    [task] = bench.reading.tasks()
    bench.reading.answer(task.task_id, Reranked((1.0,)))
    bench.cycle()
    assert isinstance(call.error, InternalError)
    bench.assert_idle()


def test_without_an_extractor_the_fix_is_named(quoting, ranking):
    bench = Bench()
    ports = [port for port in bench.ports if port.name != "reading"]
    with pytest.raises(ConfigError, match="--model extract"):
        Bench(ports=ports).submit(quoting)
    with pytest.raises(ConfigError, match="--reranker extract"):
        Bench(ports=ports).submit(ranking)


def test_without_a_generator_the_fix_is_named(draft):
    bench = Bench()
    ports = [port for port in bench.ports if port.name != "llm"]
    with pytest.raises(ConfigError, match=r"--model reader.*'quote'"):
        Bench(ports=ports).submit(draft)


def test_a_list_is_read_as_a_whole(bench):
    graph = RAGraph("parts").add_generation("split", "Split {query}", "parts", parse="lines")
    graph.add_retrieval("find", "parts", topk=2, collect=True, rerank=1)
    bench.llm.texts["split"] = ["who?\nwhere?"]
    assert bench.submit(graph.compile()).answer
    [task] = bench.reading.tasks()
    assert task.payload.question == "who?\nwhere?"
