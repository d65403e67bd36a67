"""Only a list that is written for a search is taken item by item."""

import pytest

from heddle.graph.pgraph import EdgeKind
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.pipeline_decoding import PipelineDecoding
from heddle.workflow.presets import PRESETS, multistep
from heddle.workflow.ragraph import RAGraph


def items_of(graph):
    workflow = graph.compile()
    before = lower_region(workflow, workflow.entries, initial_scope({"query": ""})).graph
    after = PipelineDecoding().apply(before)
    if after is None:
        return set()
    verify(after)
    assert after.primitives == before.primitives
    assert after.edges > before.edges
    return {(e.producer, e.consumer) for e in after.edges if e.kind is EdgeKind.ITEMS}


def listing(**retrieval):
    graph = RAGraph("listing").add_generation("list", "{query}", "items", parse="lines")
    return graph.add_retrieval("find", "{query} {items}", topk=2, collect=True, **retrieval)


def test_a_list_flows_to_its_searches():
    assert items_of(multistep()) == {
        ("decompose.decoding@0", "retrieve.embedding@0"),
        ("retrieve.embedding@0", "retrieve.searching@0"),
    }


def test_a_search_by_words_waits_for_the_whole_list():
    assert items_of(listing(hybrid=True)) == {("list.decoding@0", "find.embedding@0")}


def test_of_two_lists_neither_flows():
    graph = RAGraph("two")
    graph.add_generation("a", "{query}", "first", parse="lines")
    graph.add_generation("b", "{query}?", "second", parse="lines")
    graph.add_retrieval("find", "{first} {second}", topk=2, collect=True)
    assert items_of(graph) == set()


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"multistep"}))
def test_what_writes_no_list_stays(name):
    assert items_of(PRESETS[name]()) == set()
