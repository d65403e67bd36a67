import math
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.assembly.core_shares import share_cores
from heddle.app.assembly.demand import KV_BYTES_MIN, Demand
from heddle.app.assembly.placement import (
    KV_BYTES_MAX,
    MEMORY_SHARE,
    PROCESS_BYTES,
    WAITING_BYTES_MAX,
    WAITING_BYTES_MIN,
    WAITING_TOKEN_BYTES,
    Placement,
    plan_placement,
)
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import Bound, MemorySplit, StageMix
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.hosts.machine import MachineFacts

GIB = 1 << 30
DISAGGREGATED = (LaneRole.PREFILL, LaneRole.DECODE, LaneRole.DECODE)


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


@pytest.mark.parametrize(("cpus", "is_left"), [(1, False), (2, False), (3, True), (8, True)])
def test_a_core_is_left_to_the_runtime_where_there_are_more_than_lanes(cpus: int, is_left: bool):
    assert plan_placement(machine(cpus), Demand(GIB, 0, 0)).has_spare_core is is_left


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
    needed = 3 * PROCESS_BYTES + llm + embedder + index + KV_BYTES_MIN + WAITING_BYTES_MIN
    fits = needed <= int(memory * MEMORY_SHARE)
    try:
        placement = plan_placement(machine(4, memory), demand)
    except ConfigError:
        assert not fits
    else:
        assert fits
        assert placement.total_bytes <= placement.limit_bytes
        assert KV_BYTES_MIN <= placement.kv_bytes <= KV_BYTES_MAX
        assert WAITING_BYTES_MIN <= placement.waiting_bytes <= WAITING_BYTES_MAX


def test_weights_are_packed_only_where_that_takes_nothing_from_anything_else():
    def plan(packed: int) -> Placement:
        return plan_placement(machine(4), Demand(GIB, 0, 0, packed))

    without = plan(0)
    assert not without.packs_weights
    spare = without.limit_bytes - without.total_bytes + without.waiting_bytes - WAITING_BYTES_MIN
    packs = plan(spare)
    assert packs.packs_weights
    assert packs.total_bytes == packs.limit_bytes
    assert packs.waiting_bytes == WAITING_BYTES_MIN
    assert packs.kv_bytes == without.kv_bytes
    assert "weights packed for decoding" in packs.lines()[1]
    assert plan(spare + 1) == without


def test_kv_bytes_are_as_asked_for_or_refused():
    assert plan_placement(machine(4), Demand(GIB, 0, 0), 5 * GIB).kv_bytes == 5 * GIB
    with pytest.raises(ConfigError, match=r"KV 13,312 MiB.*lower kv_cache_bytes"):
        plan_placement(machine(4), Demand(GIB, 0, 0), 13 * GIB)


@pytest.mark.parametrize(
    ("demand", "retrieval", "llm", "embedding", "is_lent"),
    [
        (Demand(0, 1, 1, accelerators=1), range(15), (), (), False),
        (Demand(0, 1, 1, accelerators=1, spills=True), range(3), (), range(3, 15), False),
        (Demand(1, 1, 1, accelerators=1, spills=True), range(3), range(3, 15), range(3, 15), True),
        (
            Demand(1, 1, 1, llm_on_cpu=False, accelerators=1, spills=True),
            range(3),
            (3, 4),
            range(5, 15),
            False,
        ),
        (Demand(1, 1, 1, llm_on_cpu=False, accelerators=1), range(3), range(3, 15), (), False),
    ],
)
def test_an_llm_on_the_cpu_lends_its_cores_and_one_on_a_gpu_leaves_them(
    demand: Demand, retrieval: range, llm: range, embedding: range, is_lent: bool
):
    lanes = [(tuple(llm),) if llm else (), (tuple(reversed(embedding)),) if embedding else ()]
    assert share_cores([tuple(range(16))], demand) == (tuple(retrieval), *lanes, is_lent)


@given(
    cores=st.integers(1, 64),
    quota=st.floats(0.5, 64),
    has_llm=st.booleans(),
    llm_on_cpu=st.booleans(),
    accelerators=st.integers(0, 8),
    heterogeneous=st.booleans(),
)
def test_no_more_threads_run_at_once_than_there_are_cores(
    cores: int,
    quota: float,
    has_llm: bool,
    llm_on_cpu: bool,
    accelerators: int,
    heterogeneous: bool,
):
    demand = Demand(
        int(has_llm),
        0,
        0,
        llm_on_cpu=llm_on_cpu,
        accelerators=accelerators,
        spills=heterogeneous and accelerators > 0,
    )
    facts = machine(cores, quota=quota)
    placement = plan_placement(facts, demand)
    threads = placement.threads
    # Every lane needs a thread, however few cores there are.
    assert sum(threads.values()) <= max(facts.cores, 1 + has_llm + accelerators)
    assert threads["retrieval lane"] >= 1
    assert threads["llm lane"] >= has_llm
    embedding = {core for cores in placement.embedding_cores for core in cores}
    used = {*placement.retrieval_cpus, *placement.llm_cpus, *embedding}
    assert used <= set(facts.cpus[: facts.cores])
    if placement.is_lent:
        assert embedding == set(placement.llm_cpus)
        assert "embedding-cpu: on the llm's cores, only while" in placement.lines()[2]
    else:
        assert not embedding & {*placement.retrieval_cpus, *placement.llm_cpus}


def test_every_embedding_lane_is_a_process_with_a_model():
    few = plan_placement(machine(16), Demand(0, GIB, 0, accelerators=1))
    more = plan_placement(machine(16), Demand(0, GIB, 0, accelerators=1, spills=True))
    assert more.total_bytes - few.total_bytes == PROCESS_BYTES + GIB


def test_named_lanes_are_placed_under_a_quota_and_one_that_leaves_no_core_is_told():
    demand = Demand(0, GIB, 0, named_cores=((6, 7),))
    under = plan_placement(machine(8, quota=3.0), demand)
    assert (under.retrieval_cpus, under.embedding_cores) == ((0,), ((7, 6),))
    assert not under.is_pinned
    all_cores = plan_placement(machine(2), Demand(0, GIB, 0, named_cores=((0,), (1,))))
    assert all_cores.lines()[0] == (
        "runtime, vector, tools: cores 0, shared with embedding, which leaves none"
    )


def test_every_shard_is_a_process():
    whole, parts = (plan_placement(machine(16), Demand(0, 0, 0, shards=n)) for n in (1, 3))
    assert parts.total_bytes - whole.total_bytes == 2 * PROCESS_BYTES


def test_what_a_token_of_a_waiting_text_takes():
    ids = list(range(1 << 20, (1 << 20) + 1000))  # no small integers, which Python shares
    in_lane = (sys.getsizeof(ids) + sum(map(sys.getsizeof, ids))) / len(ids)
    english = 2 * 4.3  # a byte for each character, here and in the lane
    assert in_lane + english <= WAITING_TOKEN_BYTES
    placement = plan_placement(machine(4), Demand(0, 0, 0))
    assert placement.waiting_tokens == WAITING_BYTES_MAX // WAITING_TOKEN_BYTES
    assert f"{placement.waiting_tokens:,} tokens" in placement.lines()[-1]


@pytest.mark.parametrize(
    ("cpus", "retrieval", "lanes"),
    [
        (3, (0,), [(0,), (1,), (2,)]),
        (4, (0,), [(1,), (2,), (3,)]),
        (6, (0,), [(1,), (2, 3), (4, 5)]),
        (12, (0, 1, 2), [(3, 4, 5), (6, 7, 8), (9, 10, 11)]),
    ],
)
def test_llm_lanes_have_cores_of_their_own(cpus: int, retrieval: tuple, lanes: list):
    placement = plan_placement(machine(cpus), Demand(1, 0, 0, llm_roles=DISAGGREGATED))
    assert placement.retrieval_cpus == retrieval
    assert list(placement.llm_lanes.values()) == lanes
    names = ["llm-prefill", "llm-decode-0", "llm-decode-1"]
    assert list(placement.llm_lanes) == names
    assert [line.split(":")[0] for line in placement.lines()[1:4]] == names
    assert [placement.threads[f"{name} lane"] for name in names] == [len(lane) for lane in lanes]


def test_each_llm_lane_has_weights_pages_and_a_process():
    def plan(roles: tuple[LaneRole, ...], packed: int = 0) -> Placement:
        demand = Demand(GIB, 0, 0, packed, llm_roles=roles)
        return plan_placement(machine(8), demand, KV_BYTES_MIN)

    one, three = plan((LaneRole.BOTH,)), plan(DISAGGREGATED)
    assert one.kv_bytes == three.kv_bytes == KV_BYTES_MIN
    planned = three.total_bytes - three.waiting_bytes - (one.total_bytes - one.waiting_bytes)
    assert planned == 2 * (GIB + KV_BYTES_MIN + PROCESS_BYTES)
    packs = plan(DISAGGREGATED, GIB)
    assert packs.packs_weights
    assert ["packed" in line for line in packs.lines()[1:4]] == [False, True, True]
    planned = packs.total_bytes - packs.waiting_bytes - (three.total_bytes - three.waiting_bytes)
    assert planned == 2 * GIB, "a lane that only prefills packs nothing"


def test_pages_are_shared_out_evenly_where_nobody_says_how_many():
    demand = Demand(GIB, 0, 0, llm_roles=DISAGGREGATED)
    placement = plan_placement(machine(8, memory_bytes=8 * GIB), demand)
    assert KV_BYTES_MIN < placement.kv_bytes < KV_BYTES_MAX
    assert placement.total_bytes <= placement.limit_bytes


def test_more_llm_lanes_than_cores_are_refused():
    with pytest.raises(ConfigError, match=r"names 3 lanes, .* may use 2 cores"):
        plan_placement(machine(8, quota=2.0), Demand(1, 0, 0, llm_roles=DISAGGREGATED))
    plan_placement(machine(2), Demand(0, 1, 1, llm_roles=DISAGGREGATED))  # no LLM, no lanes


def test_a_memory_split_says_how_much_kv_there_is():
    budgets, mix = [], StageMix(1.5, 2.0)

    def split(budget_bytes: int) -> MemorySplit:
        budgets.append(budget_bytes)
        return MemorySplit(64 << 20, budget_bytes - (64 << 20), 3.5, Bound.RETRIEVAL, mix)

    demand = Demand(GIB, 0, 0, llm_roles=(LaneRole.BOTH, LaneRole.BOTH))
    placement = plan_placement(machine(4), demand, None, split)
    assert placement.kv_bytes == 64 << 20
    assert 2 * budgets[0] < placement.limit_bytes
    said = "64 MiB of KV pages for 3.50 requests/s of 1.5 generations and 2 searches each, bound by"
    assert f"{said} retrieval" in placement.lines()[-1]
    assert plan_placement(machine(4), demand, 32 << 20, split).split is None
    assert plan_placement(machine(4), Demand(0, GIB, GIB), None, split).split is None


@pytest.mark.parametrize(
    ("facts", "changes", "lends"),
    [
        (machine(2), {}, True),
        (machine(8), {}, True),
        (machine(1), {}, False),
        (machine(8, quota=2.5), {}, False),
        (machine(8), {"llm_on_cpu": False}, False),
        (machine(8), {"llm_roles": (LaneRole.BOTH, LaneRole.BOTH)}, False),
        (machine(8), {"shards": 2}, False),
        (machine(8), {"llm_bytes": 0}, False),
        (machine(8), {"named_cores": ((0,),)}, True),
        (machine(2), {"named_cores": ((0,),)}, False),
    ],
)
def test_retrieval_and_an_llm_beside_it_lend_each_other_cores(facts, changes, lends):
    demand = replace(Demand(GIB, 0, 0), **changes)
    placement = plan_placement(facts, demand)
    assert placement.lends_to_llm is placement.lends_to_scans is lends
    said = "".join(placement.lines())
    assert ("while retrieval is idle" in said) is ("scans of a flat index" in said) is lends
    without = plan_placement(facts, demand, lends_to_llm=False, lends_to_scans=False)
    assert [without.lends_to_llm, without.lends_to_scans] == [False, False]


def test_scans_leave_the_llms_cores_to_embedding_that_is_there_while_it_is_idle():
    placement = plan_placement(machine(8), Demand(GIB, 1, 1, accelerators=1, spills=True))
    assert [placement.is_lent, placement.lends_to_llm] == [True, True]
    assert not placement.lends_to_scans


def test_no_cores_are_lent_across_nodes():
    nodes = ((0, 1, 2, 3), (4, 5, 6, 7))
    placement = plan_placement(machine(8), Demand(GIB, 0, 0), nodes=nodes)
    assert [placement.lends_to_llm, placement.lends_to_scans] == [False, False]
