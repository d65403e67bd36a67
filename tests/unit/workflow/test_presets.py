"""The ready-made workflows compile, and say what they are."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.nodes import RetrievalNode
from heddle.workflow.presets import PRESETS, irg, preset, recomp
from heddle.workflow.ragraph import RAGraph
from tests.helpers.fake_ports import Bench


def searches(graph: RAGraph) -> list[RetrievalNode]:
    nodes = graph.compile().nodes.values()
    return [node for node in nodes if isinstance(node, RetrievalNode)]


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_compiles_and_ends_in_an_answer(name: str) -> None:
    workflow = preset(name).compile()
    assert workflow.name == name
    assert "answer" in workflow.writers or workflow.writers == {
        "docs": "retrieve",
        "quotes": "quote",
    }


def test_a_ready_made_search_takes_what_there_is_unless_told_how_much() -> None:
    for make in PRESETS.values():
        assert all(node.allow_fewer for node in searches(make()))
        assert {(n.topk, n.allow_fewer) for n in searches(make(topk=9))} == {(9, False)}
    assert [node.topk for node in searches(recomp())] == [6]
    with pytest.raises(WorkflowError, match="topk must be in"):
        recomp(topk=0)


def test_unknown_preset_lists_the_known() -> None:
    with pytest.raises(WorkflowError, match="oneshot"):
        preset("twoshot")


def test_irg_needs_a_turn() -> None:
    with pytest.raises(WorkflowError, match="turns"):
        irg(turns=0)


def test_irg_may_use_all_of_its_turns() -> None:
    bench = Bench()
    # The fake index finds by length: other passages each turn, so that no turn repeats another.
    drafts = ["Longer" + "." * turn for turn in range(40)]
    bench.llm.texts = {"answer": list(drafts)}
    call = bench.submit(irg(turns=40).compile())
    assert call.answer.text == drafts[-1]
    bench.assert_idle()
