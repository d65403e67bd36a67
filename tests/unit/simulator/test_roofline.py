"""Rooflines: the right roof, the right plateau."""

import pytest

from heddle.simulator.roofline import (
    Gpu,
    LlmShape,
    SearchShape,
    decode_step_s,
    extend_s,
    kv_tokens_max,
    prefill_s,
    saturation,
    utilisation,
)

GPU, LLM, SEARCH = Gpu(), LlmShape(), SearchShape()


def test_long_prompts_hit_the_compute_roof_and_short_ones_the_memory_roof():
    long_s = prefill_s(GPU, LLM, 100_000, 8)
    assert long_s == pytest.approx(2 * 37e9 * 100_000 / (989e12 * 0.6) / 8)
    assert prefill_s(GPU, LLM, 1, 8) == pytest.approx(671e9 / (4.8e12 * 0.6) / 8)


def test_a_decode_step_reads_more_experts_and_more_kv_as_the_batch_grows():
    times_s = [decode_step_s(GPU, LLM, batch, 4000, 8) for batch in (1, 8, 64, 512)]
    assert times_s == sorted(times_s)
    assert times_s[1] < 8 * times_s[0]
    assert decode_step_s(GPU, LLM, 64, 8000, 8) > times_s[2]


def test_a_few_searches_cost_their_launch_and_many_their_bytes():
    assert extend_s(GPU, SEARCH, 1) == pytest.approx(GPU.launch_s, rel=0.01)
    assert extend_s(GPU, SEARCH, 1 << 20) > 100 * GPU.launch_s


def test_prefill_saturates_near_its_peak_and_search_far_below():
    def prefill(n):
        return utilisation(GPU, 2 * LLM.parameters_active * n, 8 * prefill_s(GPU, LLM, n, 8))

    def search(n):
        return utilisation(GPU, 3.0 * n * SEARCH.degree * SEARCH.dims, extend_s(GPU, SEARCH, n))

    assert prefill(saturation(prefill)) == pytest.approx(GPU.reached)
    assert search(saturation(search)) < 0.02
    assert saturation(search) > 1000


def test_saturation_is_the_first_batch_near_the_plateau():
    assert saturation(lambda n: min(n / 100, 1.0)) == 128


def test_kv_has_the_memory_that_weights_leave():
    tokens = kv_tokens_max(GPU, LLM, 8)
    assert 4 * tokens < 8192 * 4000  # a batch that would saturate decoding has no room
    assert LLM.parameters + tokens * LLM.kv_bytes == pytest.approx(0.9 * 8 * 141e9, rel=1e-6)
    assert kv_tokens_max(GPU, LLM, 5) == 0
