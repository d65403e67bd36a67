"""Which workflows get an answer cache, and that they are themselves again without it."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.caching.answer_caching import (
    NO_CACHE,
    Caching,
    cache_of,
    cached,
    check_placed,
    with_cache,
    without_cache,
)
from heddle.workflow.nodes import AnswerCacheNode
from heddle.workflow.presets import PRESETS, oneshot, search
from heddle.workflow.ragraph import RAGraph

SIMILAR = Caching(adds=True, similarity=0.9, allows_similar=True)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_ready_made_workflow_begins_with_it_and_is_itself_without(name):
    bare = PRESETS[name]().compile()
    workflow = cached(bare, SIMILAR)
    assert workflow.entries == ("answer_cache",)
    assert workflow.outputs == bare.outputs
    assert workflow.content != bare.content
    assert without_cache(workflow) == bare
    assert cached(workflow, NO_CACHE) == bare


def test_a_request_that_must_be_exact_takes_equal_questions_alone():
    workflow = oneshot().add_answer_cache(similarity=0.9).compile()
    assert cache_of(workflow).similarity == 0.9
    exact = cached(workflow, Caching(allows_similar=False))
    assert cache_of(exact).similarity is None
    assert cache_of(cached(workflow, Caching(allows_similar=True))).similarity == 0.9


def test_what_answers_nothing_from_passages_gets_none():
    writes = RAGraph("writes").add_generation("write", "{query}").compile()
    for workflow in (search().compile(), writes):
        assert cached(workflow, SIMILAR) is workflow


def test_one_is_placed_beside_names_that_are_taken():
    graph = RAGraph("taken").add_retrieval("answer_cache", output="answer_cached")
    workflow = cached(graph.add_generation("a", "{answer_cached}").compile(), SIMILAR)
    node = cache_of(workflow)
    assert (node.id, node.output) == ("answer_cache_", "answer_cached_")
    assert set(workflow.nodes) == {"answer_cache_", "answer_cache", "a"}


def test_a_workflow_with_a_function_keeps_nothing():
    graph = RAGraph("t").add_retrieval("find").add_tool("t", len, ["docs"], "n")
    workflow = graph.add_generation("a", "{docs}{n}").compile()
    assert cache_of(cached(workflow, SIMILAR)).unfit == "node 't' calls a function"
    with pytest.raises(WorkflowError, match="node 't' calls a function"):
        graph.add_answer_cache().compile()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda g: g.add_answer_cache().add_answer_cache("again"), "has one already"),
        (lambda g: g.add_answer_cache(similarity=1.0), "between 0 and 1"),
        (lambda g: g.add_answer_cache("find"), "'find' is there already"),
        (lambda g: g.add_answer_cache("c").add_generation("c", "x"), "'c' is there already"),
    ],
)
def test_one_that_cannot_be_placed_is_refused(place, message):
    with pytest.raises(WorkflowError, match=message):
        place(RAGraph("mine").add_retrieval("find"))


def test_one_that_would_keep_answers_from_nothing_is_refused():
    workflow = RAGraph("writes").add_generation("write", "{query}").compile()
    with pytest.raises(WorkflowError, match="add a retrieval"):
        check_placed(workflow)


def test_the_cache_of_a_graph_is_part_of_what_is_compiled():
    graph = oneshot()
    bare = graph.compile()
    assert graph.add_answer_cache().compile() == with_cache(
        bare, AnswerCacheNode("answer_cache", "answer_cached")
    )
