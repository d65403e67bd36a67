"""Edits that the runtime could not follow are refused; those of one pass together."""

import pytest

from heddle.core.errors import InternalError
from heddle.passes.cycle_view import CycleView, SetBudget
from heddle.passes.edit_check import check_edits

VIEW = CycleView(0.0, (), {"llm": None, "vector": None})


def test_edits_are_returned():
    edits = [SetBudget("llm", 0.1, 0.0), SetBudget("vector", float("inf"), 0.2)]
    assert check_edits(VIEW, edits) == tuple(edits)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        (None, "returned NoneType: return a tuple"),
        (("stop",), "'stop' is no edit"),
        ((SetBudget("gpu", 0.1, 0.0),), "no engine 'gpu'; known: llm, vector"),
        ((SetBudget("llm", 0.1, "much"),), "gain_s must be a number, got 'much'"),
        ((SetBudget("llm", float("nan"), 0.0),), "budget_s must be a number"),
        ((SetBudget("llm", 0.0, 0.0),), "budget_s must be above 0"),
    ],
)
def test_an_edit_that_nothing_could_follow_is_refused(edits, words):
    with pytest.raises(InternalError, match=words):
        check_edits(VIEW, edits)
