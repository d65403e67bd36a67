"""Clusters under load: repeatable, conserving, and ordered as their rooflines say."""

from dataclasses import replace

from heddle.simulator.placement import Cluster, Placement
from heddle.simulator.rag_cluster import Load, RagCluster
from heddle.simulator.roofline import SearchShape

LOAD = Load(8.0, duration_s=4.0, answer_tokens=64)
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
