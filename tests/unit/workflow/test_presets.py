"""The ready-made workflows compile, and say what they are."""

import pytest

from heddle.core.errors import WorkflowError
from heddle.workflow.presets import PRESETS, irg, preset


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_compiles_and_ends_in_an_answer(name: str) -> None:
    workflow = preset(name).compile()
    assert workflow.name == name
    assert "answer" in workflow.writers


def test_unknown_preset_lists_the_known() -> None:
    with pytest.raises(WorkflowError, match="oneshot"):
        preset("twoshot")


def test_irg_needs_a_turn() -> None:
    with pytest.raises(WorkflowError, match="turns"):
        irg(turns=0)
