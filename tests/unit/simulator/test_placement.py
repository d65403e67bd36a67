"""Placements: each pays where it should, and the GPUs add up."""

from dataclasses import replace

import pytest

from heddle.core.errors import ConfigError
from heddle.simulator.placement import Cluster, Links, Placement
from heddle.simulator.roofline import Gpu, SearchShape

POOL = Cluster(Placement.POOL, prefill_nodes=2, decode_nodes=4, pool_gpus=4)
COUPLED = replace(POOL, placement=Placement.COUPLED)
WITH_PREFILL = replace(POOL, placement=Placement.WITH_PREFILL)


def test_gpus_and_replicas_add_up():
    assert [c.gpus for c in (POOL, COUPLED, WITH_PREFILL)] == [52, 52, 52]
    assert [c.index_replicas for c in (POOL, COUPLED, WITH_PREFILL)] == [4, 6, 6]


def test_the_way_to_the_index_is_short_where_it_stands_in_the_node():
    assert COUPLED.search_trip_s(for_prefill=False) < POOL.search_trip_s(for_prefill=False)
    assert WITH_PREFILL.search_trip_s(for_prefill=True) == COUPLED.search_trip_s(for_prefill=True)
    assert WITH_PREFILL.search_trip_s(for_prefill=False) == POOL.search_trip_s(for_prefill=False)


def test_a_displaced_decode_gpu_costs_its_node_more_than_the_short_way_saves():
    lost_s = COUPLED.step_s(64, 4000) - POOL.step_s(64, 4000)
    saved_s = POOL.search_trip_s(for_prefill=False) - COUPLED.search_trip_s(for_prefill=False)
    assert lost_s > saved_s > 0
    assert WITH_PREFILL.step_s(64, 4000) == POOL.step_s(64, 4000)


def test_a_prefill_node_with_an_index_is_slower():
    assert WITH_PREFILL.prompt_s(4000) == COUPLED.prompt_s(4000) > POOL.prompt_s(4000)


def test_all_reduces_are_counted():
    slow = replace(POOL, links=Links(node_bytes_per_s=45e9))
    assert slow.prompt_s(4000) > 1.5 * POOL.prompt_s(4000)


@pytest.mark.parametrize("values", [{"prefill_nodes": 0}, {"decode_nodes": 0}, {"pool_gpus": 0}])
def test_a_cluster_of_nothing_is_refused(values):
    with pytest.raises(ConfigError):
        replace(POOL, **values)


def test_an_index_beyond_a_gpu_is_refused():
    with pytest.raises(ConfigError, match="fewer vectors"):
        replace(POOL, search=SearchShape(vectors=1e9))


def test_a_node_decodes_as_many_sequences_as_its_memory_holds():
    assert 800 < COUPLED.batch_max(4000) < POOL.batch_max(4000) < 1300
    assert POOL.batch_max(8000) == POOL.batch_max(4000) // 2


def test_a_model_beyond_a_nodes_memory_is_refused():
    with pytest.raises(ConfigError, match="671 GB of weights"):
        replace(POOL, gpu=Gpu(memory_bytes=90e9))
