"""Only prompts that show the passages of several queries in turn begin with the first of them."""

import pytest

from heddle.graph.pgraph import EdgeKind
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.pipeline_decoding import PipelineDecoding
from heddle.passes.split_prefill import SplitPrefill
from heddle.workflow.presets import PRESETS, multistep
from heddle.workflow.ragraph import RAGraph


def items_of(graph):
    """Return the edges of items that the pass adds to those of its sibling."""
    workflow = graph.compile()
    before = lower_region(workflow, workflow.entries, initial_scope({"query": ""})).graph
    before = PipelineDecoding().apply(before) or before
    after = SplitPrefill().apply(before)
    if after is None:
        return set()
    verify(after)
    assert after.primitives == before.primitives
    added = after.edges - before.edges
    assert {e.kind for e in added} == {EdgeKind.ITEMS}
    return {(e.producer, e.consumer) for e in added}


def test_passages_flow_to_the_prompt_that_shows_them():
    assert items_of(multistep()) == {
        ("retrieve.searching@0", "retrieve.aggregate@0"),
        ("retrieve.aggregate@0", "answer.prefilling@0"),
    }


def test_what_is_ranked_waits_for_all():
    graph = RAGraph("ranked").add_generation("list", "{query}", "items", parse="lines")
    graph.add_retrieval("find", "{query} {items}", topk=4, collect=True, rerank=2, output="docs")
    graph.add_generation("answer", "{docs}{query}")
    assert items_of(graph) == set()


def test_what_no_prompt_shows_stays():
    graph = RAGraph("quoted").add_generation("list", "{query}", "items", parse="lines")
    graph.add_retrieval("find", "{query} {items}", topk=4, collect=True, output="docs")
    graph.add_extraction("quote", "docs", output="quotes")
    assert items_of(graph) == set()


@pytest.mark.parametrize("name", sorted(PRESETS.keys() - {"multistep"}))
def test_a_single_query_has_nothing_to_split(name):
    assert items_of(PRESETS[name]()) == set()
