"""Readers of long stages begin with parts, in the graph and on the engines; values stay."""

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.tasks import Priority
from heddle.graph.pgraph import EdgeKind
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.decompose_stages import DecomposeStages
from heddle.passes.prune_dependencies import PruneDependencies
from heddle.workflow.indexing import indexing_workflow
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import Bench

COSTS = CostSnapshot("embedding", 1, {"call": 2e-4, "tokens": 1e-5})  # 2 rows at 1 ms a row


def searches():
    """A tool lists queries, each is searched for."""
    graph = RAGraph("searches")
    graph.add_tool("split", lambda text: [f"{text} {n}" for n in range(6)], ["query"], "parts")
    graph.add_retrieval("find", query="parts", topk=2)
    return graph.compile()


def items_of(workflow):
    scope = initial_scope(dict.fromkeys(workflow.inputs, ""))
    graph = lower_region(workflow, workflow.entries, scope).graph
    graph = PruneDependencies().apply(graph) or graph
    changed = DecomposeStages().apply(graph)
    if changed is None:
        return None
    return [(e.producer, e.consumer) for e in changed.edges if e.kind is EdgeKind.ITEMS]


def test_the_list_of_a_tool_is_searched_for_in_parts():
    assert items_of(searches()) == [("find.embedding@0", "find.searching@0")]


def test_texts_are_stored_in_parts():
    assert items_of(indexing_workflow()) == [("index.embedding@0", "index.ingestion@0")]


@pytest.mark.parametrize("hybrid", [False, True])
def test_one_question_is_no_stage_and_words_read_the_list_itself(hybrid):
    one = RAGraph("one").add_retrieval("find", topk=2)
    assert items_of(one.compile()) is None
    graph = RAGraph("words")
    graph.add_tool("split", lambda text: [text], ["query"], "parts")
    graph.add_retrieval("find", query="parts", hybrid=hybrid)
    assert (items_of(graph.compile()) is None) is hybrid


def served(workflow, inputs=None, **options):
    """Return a bench whose embedding lane answers nothing by itself, and a request on it."""
    bench = Bench()
    bench.embedding.costs = COSTS
    bench.submit(RAGraph("one").add_retrieval("find", topk=2).compile())  # a row of 1 ms
    bench.embedding.holds = lambda task: True
    bench.vector.holds = lambda task: True
    return bench, bench.submit(workflow, inputs, **options)


def rows_of(port):
    return [task.payload.rows for task in port.tasks()[1:]]


def test_searches_begin_while_the_rest_is_embedded():
    bench, call = served(searches())
    assert rows_of(bench.embedding) == [2, 2, 2]
    first, *_ = bench.embedding.open
    bench.embedding.answer(first)
    bench.cycle()
    assert rows_of(bench.vector) == [2]
    bench.embedding.answer_all()
    bench.cycle()
    bench.vector.answer_all()
    bench.cycle()
    expected = Bench().submit(searches())
    assert call.answer.passages == expected.answer.passages
    assert call.answer.receipt.rows_ahead == 2
    bench.assert_idle()


TEXTS = {"texts": tuple("abcdef"), "chunk_ids": tuple(range(6))}


def test_the_first_part_is_stored_while_the_second_is_embedded():
    bench, call = served(indexing_workflow(), TEXTS)
    assert rows_of(bench.embedding) == [2, 2, 2]
    first, second, third = list(bench.embedding.open)
    bench.embedding.answer(first)
    bench.cycle()
    (part,) = [task.payload for task in bench.vector.tasks()[1:]]
    assert part.chunk_ids.tolist() == [0, 1]
    for task_id in (third, second):  # whatever their order
        bench.embedding.answer(task_id)
        bench.cycle()
    assert [t.payload.chunk_ids.tolist() for t in bench.vector.tasks()[2:]] == [[2, 3, 4, 5]]
    bench.vector.answer_all()
    bench.cycle()
    stored = call.answer.slots["stored"]
    assert stored.count == 6
    bench.assert_idle()


def test_a_part_that_fails_is_stored_again_with_the_rest():
    bench, call = served(indexing_workflow(), TEXTS)
    first, *_ = bench.embedding.open
    bench.embedding.answer(first)
    bench.cycle()
    (task_id,) = bench.vector.open
    bench.vector.fail(task_id)
    bench.cycle()
    bench.embedding.answer_all()
    bench.cycle()
    bench.vector.answer_all()
    bench.cycle()
    stored = call.answer.slots["stored"]
    assert stored.count == 6
    bench.assert_idle()


def test_what_is_indexed_in_bulk_stays_whole():
    bench, call = served(indexing_workflow(), TEXTS, priority=Priority.BULK)
    assert rows_of(bench.embedding) == [6]
    bench.embedding.answer_all()
    bench.cycle()
    bench.vector.answer_all()
    bench.cycle()
    assert call.answer
    bench.assert_idle()
