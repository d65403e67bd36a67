"""Weights lose at most half a step of their group's grid."""

import pytest
import torch

from heddle.core.errors import ConfigError
from heddle.engines.llm.model.grid import CODE_MAX, GROUP, join_grids, round_to_grid


@pytest.mark.parametrize("scale", [1e-6, 0.02, 300.0])
def test_a_weight_is_rounded_by_half_a_step_of_its_own_group(scale):
    torch.manual_seed(0)
    weight = torch.randn(24, 3 * GROUP) * scale * torch.rand(24, 1)
    groups = weight.view(24, 3, GROUP)
    steps = (groups.amax(-1) - groups.amin(-1)) / CODE_MAX
    lost = (round_to_grid(weight, "w").values() - weight).view(24, 3, GROUP).abs().amax(-1)
    # A low and a step are rounded to float16: by 2^-11 of them, or by 2^-25 where they are tiny.
    assert bool((lost <= 0.7 * steps + 2.0**-24 * (1 + CODE_MAX / 2)).all())


def test_weights_on_a_grid_stay_there():
    torch.manual_seed(0)
    codes = torch.randint(0, CODE_MAX + 1, (8, GROUP)).float()
    codes[:, 0], codes[:, 1] = 0, CODE_MAX
    weight = codes * 0.25 - 7.5
    assert torch.equal(round_to_grid(weight, "w").values(), weight)


def test_equal_weights_of_a_group_stay_as_they_are():
    weight = torch.full((2, GROUP), 0.375)
    assert torch.equal(round_to_grid(weight, "w").values(), weight)


def test_grids_are_joined_and_reordered_by_outputs():
    torch.manual_seed(0)
    one, other = (round_to_grid(torch.randn(4, GROUP), "w") for _ in range(2))
    joined = join_grids((one, other)).reordered(lambda rows: rows.flip(0))
    expected = torch.cat((one.values(), other.values())).flip(0)
    assert torch.equal(joined.values(), expected)


@pytest.mark.parametrize(
    ("weight", "problem"),
    [
        (torch.zeros(4, GROUP + 8), r"multiple of 32 inputs; layer has 40"),
        (torch.full((4, GROUP), 1e6), "beyond 65504"),
        (torch.full((4, GROUP), torch.nan), "not finite"),
    ],
)
def test_what_no_grid_holds_is_refused(weight, problem):
    with pytest.raises(ConfigError, match=problem):
        round_to_grid(weight, "layer")
