"""A prompt is computed ahead where that is predicted to pay, on an engine without other work."""

from dataclasses import replace

import pytest

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Load
from heddle.core.primitives import PrimitiveKind
from heddle.engines.llm.step_sizes import BACKGROUND_STEP_S
from heddle.passes.cycle_view import CycleView, EngineView, Provisional
from heddle.passes.speculate_prefill import SpeculatePrefill

COSTS = CostSnapshot("llm", 1, {"call": 0.01, "prefill_tokens": 1e-3, "context_tokens": 1e-5})
KINDS = frozenset({PrimitiveKind.PREFILLING})
IDLE = EngineView("llm", KINDS, 0, 0, Load(), COSTS, None, None)
LIKELY = Provisional(1, "answer.prefilling@0", "llm", 100, 0.9, 0.05)


def edits(*provisional, engine=IDLE):
    return SpeculatePrefill().apply(CycleView(0.0, (), {"llm": engine}, provisional))


def test_the_gain_is_what_is_saved_less_what_a_wrong_guess_costs():
    (edit,) = edits(LIKELY)
    prefill_s = 0.01 + 0.1 + 0.001
    expected_s = 0.9 * 0.05 - 0.1 * prefill_s / 2 - 0.01
    assert edit.provisional is LIKELY
    assert edit.gain_s == pytest.approx(expected_s)


def test_what_it_adds_to_a_busy_engine_is_charged_to_all_who_wait_there():
    (edit,) = edits(LIKELY, engine=replace(IDLE, delay=0.5))
    prefill_s = 0.01 + 0.1 + 0.001
    own_s = 0.9 * 0.05 - 0.1 * prefill_s / 2 - 0.01
    assert edit.gain_s == pytest.approx(own_s - 0.5 * (0.01 + 0.1 * prefill_s))
    assert edits(LIKELY, engine=replace(IDLE, delay=4.0)) == ()


def test_nothing_to_gain_nothing_done():
    assert edits() == ()
    assert edits(replace(LIKELY, probability=0.3, rest_s=0.02)) == ()
    assert edits(replace(LIKELY, rest_s=0.001)) == (), "the guess itself costs more"


def test_a_guess_has_to_gain_more_than_the_step_it_takes():
    dear = COSTS._replace(coefficients_s={**COSTS.coefficients_s, "call": 0.1})
    cheap = COSTS._replace(coefficients_s={**COSTS.coefficients_s, "call": 1e-4})
    assert edits(LIKELY, engine=replace(IDLE, costs=dear)) == ()
    (edit,) = edits(replace(LIKELY, rest_s=0.008), engine=replace(IDLE, costs=cheap))
    assert edit.gain_s == pytest.approx(0.9 * 0.008 - 0.1 * 0.1011 / 2 - 1e-4)


@pytest.mark.parametrize("busy", [{"tokens": 100}, {"pending": 1}, {"costs": None}])
def test_an_engine_that_is_busy_or_not_known_is_left_alone(busy):
    assert edits(LIKELY, engine=replace(IDLE, **busy)) == ()


def test_an_engine_is_filled_up_to_its_room_by_the_largest_gains():
    wide = COSTS._replace(coefficients_s={"call": 0.02, "prefill_tokens": 1e-5})
    engine = replace(IDLE, costs=wide)  # 0.8 of the peak is at 8,000 tokens a step
    sure = replace(LIKELY, tokens=3_000, rest_s=1.0)
    prompts = [replace(sure, request_id=n, probability=0.9 - n / 20) for n in range(5)]
    chosen = [edit.provisional for edit in edits(*reversed(prompts), engine=engine)]
    assert chosen == prompts[:3], "the third fills it"
    (alone,) = edits(*prompts, engine=replace(engine, tokens=7_999))
    assert alone.provisional is prompts[0]


def test_what_others_have_in_flight_goes_first():
    fast = COSTS._replace(coefficients_s={"call": 1e-3, "prefill_tokens": 1e-4})
    short = replace(LIKELY, rest_s=0.011)
    (idle,) = edits(short, engine=replace(IDLE, costs=fast))
    (later,) = edits(short, engine=replace(IDLE, costs=fast, tokens=1))
    assert later.gain_s < idle.gain_s


def test_guesses_that_lose_more_than_predicted_are_not_made():
    assert edits(replace(LIKELY, win_rate=0.3)) == ()


def test_an_engine_gets_one_prompt_the_one_with_the_largest_gain():
    likelier = replace(LIKELY, request_id=2, probability=0.95)
    (edit,) = edits(LIKELY, likelier, replace(LIKELY, request_id=3))
    assert edit.provisional is likelier
    view = CycleView(
        0.0, (), {"llm": IDLE, "more": IDLE}, (LIKELY, replace(likelier, engine="more"))
    )
    assert len(SpeculatePrefill().apply(view)) == 2


def test_it_knows_how_long_a_step_in_the_background_may_take():
    assert SpeculatePrefill().step_s == BACKGROUND_STEP_S
