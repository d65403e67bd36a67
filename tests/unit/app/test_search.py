"""The workflow of a search by itself."""

import pytest

from heddle.app.search import search_workflow
from heddle.core.errors import InputError
from heddle.workflow.nodes import RetrievalNode


def node(**options: object) -> RetrievalNode:
    [found] = search_workflow(**options).nodes.values()
    assert isinstance(found, RetrievalNode)
    return found


def test_a_search_takes_what_there_is():
    assert (node().topk, node().rerank, node().hybrid, node().allow_fewer) == (5, None, False, True)
    assert node(hybrid=True).hybrid


def test_a_model_reads_more_than_are_kept():
    assert (node(topk=3, rerank=True).topk, node(topk=3, rerank=True).rerank) == (12, 3)
    assert (node(topk=1000, rerank=True).topk, node(topk=1000, rerank=True).rerank) == (1000, 1000)


def test_equal_searches_are_one_workflow():
    assert search_workflow(3, True) is search_workflow(topk=3, hybrid=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topk": 0}, "topk must be an integer from 1 to 1000, got 0"),
        ({"topk": True}, "topk must be"),
        ({"topk": None}, "topk must be"),
        ({"hybrid": 1}, "hybrid must be True or False, got 1"),
        ({"rerank": 5}, "rerank must be True or False, got 5"),
    ],
)
def test_refusals(options: dict[str, object], words: str):
    with pytest.raises(InputError, match=words):
        search_workflow(**options)
