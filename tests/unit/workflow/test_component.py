"""Components are joined by >>, and what can't be one is refused with the field's name."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.component import Component, joined_to


def test_a_chain_joins_neighbours_and_is_its_last():
    first, second, third = Component("LLM"), Component("Embedding"), Component("Searching")
    assert (first >> second >> third) is third
    assert first.after == [second]
    assert third.before == [second]
    assert list(joined_to([second])) == [second, first, third]


def test_dots_leave_components_out():
    first, last = Component("Embedding"), Component("LLM")
    assert (first >> ... >> last) is last
    assert first.omits_after
    assert last.before == [first]
    assert not last.omits_after


@pytest.mark.parametrize("anno", ["splitable", "splittable"])
def test_both_spellings_of_the_paper_mean_the_same(anno):
    component = Component("LLM", anno=anno)
    assert (component.is_splittable, component.is_batchable) == (True, False)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"engine": ""}, "engine must be a name"),
        ({"engine": "LLM", "anno": "fast"}, "component 'LLM': anno must be None or one of split"),
        ({"engine": "LLM", "config": ["topk"]}, "config must be a mapping"),
        ({"engine": "LLM", "in_kwargs": "query", "name": "x"}, "component 'x': in_kwargs must be"),
    ],
)
def test_what_can_t_be_one_is_refused(how, words):
    with pytest.raises(WorkflowError, match=words):
        Component(**how)


def test_only_components_are_joined():
    one = Component("LLM")
    with pytest.raises(WorkflowError, match="no component"):
        one >> "Embedding"
    with pytest.raises(WorkflowError, match="only a component can follow"):
        one >> ... >> ...
