"""Clusters under load: repeatable, conserving, and ordered as their rooflines say."""

from dataclasses import replace

import pytest

from heddle.core.errors import ConfigError
from heddle.simulator.placement import Cluster, Placement
from heddle.simulator.rag_cluster import Load, RagCluster, answer_s
from heddle.simulator.roofline import Gpu, SearchShape

LOAD = Load(8.0, duration_s=4.0, prompt_tokens=4000, answer_tokens=64, probe_every=16)
POOL = Cluster(Placement.POOL)


def outcome(cluster=POOL, load=LOAD):
    return RagCluster(cluster, load).run()


def test_equal_seeds_give_equal_outcomes():
    assert outcome() == outcome()
    assert outcome() != outcome(load=replace(LOAD, seed=1))


def test_a_light_load_takes_what_the_rooflines_say():
    light = outcome(load=replace(LOAD, prompts_per_s=0.5, duration_s=30.0))
    assert light.finished_share > 0.8
    assert POOL.prompt_s(4000) < light.ttft_p95_s < 3 * POOL.prompt_s(4000)
    assert light.token_s >= POOL.step_s(1, 4000)
    assert light.decode_stall < 0.05


def test_the_coupled_placement_computes_and_decodes_slower():
    pool, coupled = outcome(), outcome(replace(POOL, placement=Placement.COUPLED))
    assert coupled.token_s > pool.token_s
    assert coupled.ttft_p95_s > pool.ttft_p95_s


def test_a_pool_that_is_too_small_stalls_decoding():
    slow = SearchShape(extends=20_000, slots=8)
    small = outcome(replace(POOL, search=slow, pool_gpus=1))
    large = outcome(replace(POOL, search=slow, pool_gpus=16))
    assert small.decode_search_p95_s > 1.2 * large.decode_search_p95_s
    assert small.decode_stall > large.decode_stall
    assert small.vector_use > 5 * large.vector_use


def test_more_prompts_than_prefill_can_take_show_as_such():
    flooded = outcome(load=replace(LOAD, prompts_per_s=100.0))
    assert flooded.prefill_use > 0.95
    assert flooded.finished_share < 0.5


def test_sequences_that_memory_does_not_hold_wait():
    heavy = replace(LOAD, prompts_per_s=20.0, duration_s=8.0, answer_tokens=512)
    tight = replace(POOL, gpu=Gpu(memory_bytes=93.3e9))  # two sequences beside the weights
    assert tight.batch_max(4512) == 2
    assert outcome(tight, heavy).tokens_per_s < 0.8 * outcome(load=heavy).tokens_per_s
    with pytest.raises(ConfigError, match="one sequence of 4512 tokens"):
        outcome(replace(tight, gpu=Gpu(memory_bytes=93.2e9)), heavy)


def test_an_answers_time_is_what_an_unhurried_run_takes():
    light = replace(LOAD, prompts_per_s=2.0, duration_s=20.0)
    found = outcome(load=light)
    predicted_s = answer_s(POOL, light)
    decode_s = found.token_s * light.answer_tokens
    assert predicted_s == pytest.approx(POOL.prompt_s(4000) + decode_s, rel=0.25)
    assert answer_s(POOL, replace(light, prompts_per_s=40.0)) > predicted_s
