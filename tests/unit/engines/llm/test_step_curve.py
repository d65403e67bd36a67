import pytest

from heddle.engines.llm.step_curve import SPEED_SHARE, StepPoint, prompt_chunk


def curve(call_s, weights_s, token_s):
    """Steps of a device that reads its weights meanwhile: few tokens take as long as one."""
    sizes = [128 << doubled for doubled in range(7)]
    return [StepPoint(size, call_s + max(weights_s, token_s * size)) for size in sizes]


@pytest.mark.parametrize(
    ("points", "step_s_max", "tokens"),
    [
        (curve(1e-3, 2e-3, 1e-5), 1.0, 1024),
        (curve(1e-3, 2e-3, 1e-5), 0.015, 512),  # 2,048 tokens would take longer than a step may
        (curve(0.0, 0.0, 1e-5), 1.0, 128),
        (curve(1e-3, 2e-3, 1e-5), 1e-6, 128),  # all take longer
    ],
)
def test_a_chunk_is_as_small_as_speed_allows(points, step_s_max, tokens):
    assert prompt_chunk(reversed(points), step_s_max).tokens == tokens


def test_a_chunk_is_nearly_as_fast_as_the_best_and_no_smaller_one_is():
    points = curve(2e-3, 4e-3, 3e-6)
    chosen = prompt_chunk(points, 0.02)
    allowed = [point for point in points if point.seconds <= 0.02]
    enough = SPEED_SHARE * max(point.tokens_per_s for point in allowed)
    assert chosen.tokens_per_s >= enough
    smaller = [point for point in allowed if point.tokens < chosen.tokens]
    assert smaller
    assert all(point.tokens_per_s < enough for point in smaller)
