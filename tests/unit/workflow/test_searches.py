"""The searches of a workflow, changed for one request."""

import pytest

from heddle.core.errors import InputError
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.searches import (
    KEPT_MAX,
    ChangedWorkflows,
    with_reranking,
    with_searches,
)
from heddle.workflow.workflow import Workflow

WITHOUT = RAGraph("tool").add_tool("count", len, ["query"], "n").compile()


def searches(workflow: Workflow) -> list[RetrievalNode]:
    return [node for node in workflow.nodes.values() if isinstance(node, RetrievalNode)]


def test_every_search_goes_by_words_as_well():
    workflow = preset("irg").compile()
    found = with_searches(workflow, hybrid=True)
    assert searches(found)
    assert all(node.hybrid for node in searches(found))
    assert not any(node.hybrid for node in searches(with_searches(found, hybrid=False)))
    assert [node.topk for node in searches(found)] == [node.topk for node in searches(workflow)]


def test_what_is_not_asked_for_stays_the_same_object():
    workflow = preset("oneshot").compile()
    assert with_searches(workflow) is workflow
    assert ChangedWorkflows().changed(workflow, topk=None, hybrid=None) is workflow


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topk": 3}, "topk: workflow 'tool' retrieves nothing: leave it out"),
        ({"hybrid": True}, "hybrid: workflow 'tool' retrieves nothing: leave it out"),
        ({"topk": 0}, "topk must be an integer from 1 to 1000, got 0"),
        ({"topk": True}, "topk must be an integer"),
        ({"topk": [3]}, "topk must be an integer"),
        ({"topk": "3"}, "topk must be an integer"),
        ({"hybrid": "yes"}, "hybrid must be True or False, got 'yes'"),
        ({"hybrid": 1}, "hybrid must be True or False"),
    ],
)
def test_refusals(change: dict, words: str):
    with pytest.raises(InputError, match=words):
        ChangedWorkflows().changed(WITHOUT, **{"topk": None, "hybrid": None, **change})


def test_a_change_is_made_once_and_the_oldest_are_dropped():
    kept = ChangedWorkflows()
    workflow = preset("oneshot").compile()
    first = kept.changed(workflow, topk=1, hybrid=None)
    assert kept.changed(workflow, topk=1, hybrid=None) is first
    for topk in range(2, KEPT_MAX + 2):
        kept.changed(workflow, topk=topk, hybrid=None)
    assert kept.changed(workflow, topk=1, hybrid=None) is not first


def test_a_server_that_reranks_reads_more_and_keeps_fewer():
    (node,) = searches(with_reranking(preset("oneshot").compile()))
    assert (node.topk, node.rerank, node.allow_fewer) == (10, 3, True)


def test_only_searches_that_leave_it_to_the_server_are_reranked():
    own = RAGraph("own").add_retrieval("find", topk=5).compile()
    assert with_reranking(own) is own
    asked = with_searches(preset("oneshot").compile(), topk=5)
    assert with_reranking(asked) is asked


def test_a_request_may_keep_a_servers_reranking_away():
    kept = ChangedWorkflows(reranks=True)
    workflow = preset("oneshot").compile()
    (ranked,) = searches(kept.changed(workflow, topk=None, hybrid=None))
    assert ranked.rerank == 3
    assert kept.changed(workflow, topk=None, hybrid=None, may_rerank=False) is workflow
