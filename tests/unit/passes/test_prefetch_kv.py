"""Stored KV is read ahead where that is predicted to be worth it, and else it says why not."""

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.errors import InternalError
from heddle.core.frames import Load
from heddle.passes.cycle_view import (
    CycleView,
    EngineView,
    Prefetch,
    Provisional,
    Speculate,
    StoredKv,
)
from heddle.passes.edit_check import check_edits
from heddle.passes.prefetch_kv import ASK_S, PrefetchKv


def engine(*, read_s=0.05, token_s=None, pending=0, in_flight_tokens=0, stored=True):
    costs = None if token_s is None else CostSnapshot("llm", 1, {"prefill_tokens": token_s})
    kv = StoredKv(read_s, 100.0) if stored else None
    return EngineView(
        "llm", frozenset(), 0, pending, Load(), costs, None, None, (), in_flight_tokens, kv
    )


def prompt(probability=1.0, rest_s=0.4):
    return Provisional(1, "answer.prefilling@0", "llm", 0, probability, rest_s, chunk_ids=(1, 2, 3))


def view_of(one, **options):
    return CycleView(0.0, (), {"llm": engine(**options)}, stored=(one,))


@pytest.mark.parametrize(
    ("one", "options", "gain_s"),
    [
        (prompt(), {}, 0.15 - ASK_S),  # all three are there when the search ends
        (prompt(rest_s=0.1), {}, 0.1 - ASK_S),  # and here two of them
        (prompt(0.75), {}, 0.75 * 0.15 - 0.25 * 0.05 - ASK_S),
        (prompt(), {"token_s": 1e-4}, 3 * 100 * 0.85e-4 - ASK_S),  # else it would compute them
        (prompt(), {"token_s": 1e-3, "in_flight_tokens": 480}, 0.07 - ASK_S),  # busy 0.08 s longer
    ],
)
def test_the_gain_is_what_the_prompt_would_have_waited_or_computed(one, options, gain_s):
    (edit,) = PrefetchKv().apply(view_of(one, **options))
    assert edit == Prefetch(one, pytest.approx(gain_s))


@pytest.mark.parametrize(
    ("one", "options", "words"),
    [
        (prompt(0.1), {}, "with probability 0.1"),
        (prompt(rest_s=0.0005), {}, "0.5 ms of search left"),
        (prompt(), {"read_s": 0.0003}, "would have saved 0.9 ms"),
        (prompt(), {"pending": 1}, "prompts wait for llm"),
        (prompt(), {"stored": False}, "in host memory"),
    ],
    ids=["unlikely", "too late", "a fast disk", "a busy engine", "all in memory"],
)
def test_what_gains_nothing_is_left_on_disk_and_it_says_why(one, options, words):
    view = view_of(one, **options)
    assert PrefetchKv().apply(view) == ()
    assert words in PrefetchKv().reason(view)


def test_without_an_offer_there_is_nothing_to_explain():
    assert PrefetchKv().reason(CycleView(0.0, (), {})) == ""


def test_prompts_that_can_be_computed_are_no_concern_of_it():
    assert PrefetchKv().apply(CycleView(0.0, (), {}, provisional=(prompt(),))) == ()


@pytest.mark.parametrize("edit", [Prefetch, Speculate])
def test_an_edit_is_of_prompts_that_are_offered_for_it(edit):
    computable, stored = prompt(0.8), prompt(0.9)
    view = CycleView(0.0, (), {"llm": None}, provisional=(computable,), stored=(stored,))
    right, wrong = (stored, computable) if edit is Prefetch else (computable, stored)
    assert check_edits(view, (edit(right, 0.0),)) == (edit(right, 0.0),)
    with pytest.raises(InternalError, match=r"is not offered|has no stored KV"):
        check_edits(view, (edit(wrong, 0.0),))
