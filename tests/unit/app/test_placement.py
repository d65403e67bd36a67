import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.placement import (
    KV_BYTES_MAX,
    KV_BYTES_MIN,
    MEMORY_SHARE,
    PROCESS_BYTES,
    Demand,
    Placement,
    plan_placement,
)
from heddle.core.errors import ConfigError
from heddle.hosts.machine import MachineFacts

GIB = 1 << 30


def machine(cpus: int, memory_bytes: int = 16 * GIB, quota: float = math.inf) -> MachineFacts:
    return MachineFacts(
        tuple(range(cpus)), quota, "Test", frozenset(), memory_bytes, memory_bytes, ()
    )


@pytest.mark.parametrize(
    ("cpus", "quota", "retrieval", "llm"),
    [
        (1, math.inf, (0,), (0,)),
        (2, math.inf, (0,), (1,)),
        (8, math.inf, (0, 1), (2, 3, 4, 5, 6, 7)),
        (8, 2.5, (0,), (1,)),
    ],
)
def test_the_llm_gets_most_cores(cpus: int, quota: float, retrieval: tuple, llm: tuple):
    placement = plan_placement(machine(cpus, quota=quota), Demand(GIB, 0, 0))
    assert (placement.retrieval_cpus, placement.llm_cpus) == (retrieval, llm)


def test_without_an_llm_retrieval_gets_everything():
    placement = plan_placement(machine(4), Demand(0, GIB, GIB))
    assert placement.retrieval_cpus == (0, 1, 2, 3)
    assert placement.kv_bytes == 0
    assert "cores 0, 1, 2, 3" in placement.lines()[0]


@given(
    memory=st.integers(GIB, 64 * GIB),
    llm=st.integers(1, 32 * GIB),
    embedder=st.integers(0, GIB),
    index=st.integers(0, 8 * GIB),
)
def test_a_plan_never_exceeds_what_is_allowed(memory: int, llm: int, embedder: int, index: int):
    demand = Demand(llm, embedder, index)
    needed = 3 * PROCESS_BYTES + llm + embedder + index + KV_BYTES_MIN
    fits = needed <= int(memory * MEMORY_SHARE)
    try:
        placement = plan_placement(machine(4, memory), demand)
    except ConfigError:
        assert not fits
    else:
        assert fits
        assert placement.total_bytes <= placement.limit_bytes
        assert KV_BYTES_MIN <= placement.kv_bytes <= KV_BYTES_MAX


def test_weights_are_packed_only_where_that_takes_nothing_from_anything_else():
    def plan(packed: int) -> Placement:
        return plan_placement(machine(4), Demand(GIB, 0, 0, packed))

    without = plan(0)
    assert not without.packs_weights
    spare = without.limit_bytes - without.total_bytes
    packs = plan(spare)
    assert packs.packs_weights
    assert packs.total_bytes == packs.limit_bytes
    assert packs.kv_bytes == without.kv_bytes
    assert "weights packed for decoding" in packs.lines()[1]
    assert plan(spare + 1) == without


def test_kv_bytes_are_as_asked_for_or_refused():
    assert plan_placement(machine(4), Demand(GIB, 0, 0), 5 * GIB).kv_bytes == 5 * GIB
    with pytest.raises(ConfigError, match=r"KV 13,312 MiB.*lower kv_bytes"):
        plan_placement(machine(4), Demand(GIB, 0, 0), 13 * GIB)
