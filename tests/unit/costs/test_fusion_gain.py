from heddle.core.cost_snapshot import CostSnapshot
from heddle.costs.fusion_gain import FusionForecast, Sweep, extra_s, sweeps_s

COSTS = CostSnapshot(
    "llm",
    1,
    {
        "call": 10.0,
        "prefill_tokens": 1.0,
        "checked_tokens": 0.5,
        "context_tokens": 0.001,
        "fused_rows": 3.0,
        "fused_tokens": 0.2,
    },
)


def seconds(*sweeps, step_tokens=100, beside=0):
    return sweeps_s(sweeps, COSTS, step_tokens, beside)


def test_a_sweep_takes_its_tokens_its_steps_and_what_these_look_at():
    assert seconds(Sweep(80, 80)) == 10 + 80 + 0.08
    # The second step looks at all 180 positions, the first one at half of them.
    assert seconds(Sweep(180, 180)) == 20 + 180 + 0.27
    # Of 1,000 positions 820 are cached: the steps look at 910 and 1,000.
    assert seconds(Sweep(180, 1000, 820)) == 20 + 180 + 1.91


def test_sequences_that_are_computed_besides_share_the_fixed_cost_of_steps():
    assert seconds(Sweep(180, 180), beside=3) == 5 + 180 + 0.27


def test_rows_and_tokens_of_fused_prompts_cost_more():
    sweeps = (Sweep(30, 30, is_fused=True), Sweep(150, 900, is_fused=True))
    plain = seconds(*(one._replace(is_fused=False) for one in sweeps))
    assert extra_s(sweeps, COSTS, 100) == 3 * 3 + 0.2 * 180
    assert seconds(*sweeps) == plain + extra_s(sweeps, COSTS, 100)


def test_what_is_only_checked_goes_through_the_first_layers_alone():
    assert seconds(Sweep(80, 80, is_fused=True, checks=True)) == 10 + 40 + 0.08 + 3


def test_a_prompt_is_fused_if_that_saves_a_tenth():
    assert FusionForecast(100.0, 90.0).pays
    assert not FusionForecast(100.0, 91.0).pays
    doubtful = FusionForecast(100.0, 95.0, extra_s=5.0)
    assert not doubtful.pays
    assert doubtful.pays_but_for_extra
