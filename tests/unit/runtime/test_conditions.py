"""What a callable edge may return."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.graph.primitive import ConditionConfig, Read
from heddle.runtime.conditions import choose_targets
from heddle.runtime.object_store import ObjectStore
from heddle.workflow.ragraph import END, START, RAGraph
from heddle.workflow.workflow import Workflow


def workflow() -> Workflow:
    graph = RAGraph().add_retrieval(0, output="docs").add_retrieval(1, output="more")
    return graph.compile()


def chosen(value: object) -> tuple[object, ...]:
    return choose_targets(
        ConditionConfig(lambda state: value, (), 1), "0", workflow(), ObjectStore()
    )


def test_nodes_lists_of_nodes_and_end() -> None:
    assert chosen(1) == (1,)
    assert chosen([0, 1]) == (0, 1)
    assert chosen(END) == ()
    assert chosen([1, END]) == (1,)


@pytest.mark.parametrize("value", [None, True, False, "nowhere", 7, 1.5])
def test_anything_else_is_refused_with_the_known_nodes(value: object) -> None:
    with pytest.raises(WorkflowError, match=r"\[0, 1\]"):
        chosen(value)


def test_an_exception_names_the_node() -> None:
    config = ConditionConfig(lambda state: 1 / 0, (), 1)
    with pytest.raises(WorkflowError, match="after node '0' raised ZeroDivisionError"):
        choose_targets(config, "0", workflow(), ObjectStore())


def test_the_state_shows_what_is_left_of_a_list_and_the_turn() -> None:
    store = ObjectStore()
    store.put("items@0", ("a", "b", "c"))
    store.put("docs@0", "text")
    seen: dict[str, object] = {}
    state = (("items", Read("items@0", 2)), ("docs", Read("docs@0")))
    config = ConditionConfig(lambda given: seen.update(given) or END, state, 3)
    choose_targets(config, "0", workflow(), store)
    assert seen == {"items": ["c"], "docs": "text", "turn": 3}


def test_a_node_outside_of_the_edges_targets_is_refused_by_name() -> None:
    graph = RAGraph().add_retrieval("a", output="one").add_retrieval("b", output="two")
    graph.add_retrieval("c", output="three").add_edge(START, "a").add_edge("b", "c")
    graph.add_edge("a", lambda state: "c", ["b", END])

    def chosen_of(target: object) -> tuple[object, ...]:
        config = ConditionConfig(lambda state: target, (), 1)
        return choose_targets(config, "a", graph.compile(), ObjectStore())

    assert chosen_of("b") == ("b",)
    assert chosen_of(END) == ()
    with pytest.raises(WorkflowError, match=r"after node 'a' returned 'c'.*\['b'\]"):
        chosen_of("c")
