"""Stored KV is read ahead where its passages are likelier to stay than not."""

import pytest

from heddle.core.errors import InternalError
from heddle.passes.cycle_view import CycleView, Prefetch, Provisional, Speculate
from heddle.passes.edit_check import check_edits
from heddle.passes.prefetch_kv import PrefetchKv


def prompt(probability):
    return Provisional(1, "answer.prefilling@0", "llm", 100, probability, 0.4)


@pytest.mark.parametrize(("probability", "gain_s"), [(1.0, 0.4), (0.75, 0.2)])
def test_the_gain_is_the_rest_of_the_search_times_how_much_likelier_it_is(probability, gain_s):
    likely = prompt(probability)
    (edit,) = PrefetchKv().apply(CycleView(0.0, (), {}, stored=(likely,)))
    assert edit == Prefetch(likely, pytest.approx(gain_s))


def test_what_is_as_likely_wrong_is_left_on_disk():
    assert PrefetchKv().apply(CycleView(0.0, (), {}, stored=(prompt(0.5), prompt(0.1)))) == ()


def test_prompts_that_can_be_computed_are_no_concern_of_it():
    assert PrefetchKv().apply(CycleView(0.0, (), {}, provisional=(prompt(1.0),))) == ()


@pytest.mark.parametrize("edit", [Prefetch, Speculate])
def test_an_edit_is_of_prompts_that_are_offered_for_it(edit):
    computable, stored = prompt(0.8), prompt(0.9)
    view = CycleView(0.0, (), {"llm": None}, provisional=(computable,), stored=(stored,))
    right, wrong = (stored, computable) if edit is Prefetch else (computable, stored)
    assert check_edits(view, (edit(right, 0.0),)) == (edit(right, 0.0),)
    with pytest.raises(InternalError, match=r"is not offered|has no stored KV"):
        check_edits(view, (edit(wrong, 0.0),))
