"""One core budget over invented topologies."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.assembly.core_shares import CoreShares, share_cores
from heddle.app.assembly.demand import Cores, Demand
from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole


def nodes_of(*sizes: int) -> tuple[Cores, ...]:
    cores = iter(range(sum(sizes)))
    return tuple(tuple(next(cores) for _ in range(size)) for size in sizes)


def demand(
    llm: int = 0, *, accelerators: int = 0, llm_on_cpu: bool = True, spills: bool = True
) -> Demand:
    roles = (LaneRole.BOTH,) * max(1, llm)
    return Demand(
        llm,
        1,
        1,
        llm_roles=roles,
        accelerators=accelerators,
        llm_on_cpu=llm_on_cpu,
        spills=spills,
    )


@pytest.mark.parametrize(
    ("nodes", "wanted", "retrieval", "llm", "embedding"),
    [
        # WindVE's server: the main program on the first of four nodes, embedding on the others.
        (
            (4, 4, 4, 4),
            demand(),
            (0, 1, 2, 3),
            (),
            ((7, 6, 5, 4), (11, 10, 9, 8), (15, 14, 13, 12)),
        ),
        ((4, 4), demand(), (0, 1), (), ((3, 2), (7, 6, 5, 4))),
        ((4, 4), demand(1), (0, 1), ((4, 5, 6, 7),), ((3, 2),)),
        ((4, 4), demand(2), (0, 1), ((4, 5, 6, 7), (2, 3)), ()),
        ((4, 4), demand(1, accelerators=1, llm_on_cpu=False), (0,), ((1, 2),), ((3,), (6, 5, 4))),
        ((4, 4), demand(spills=False), (0, 1, 2, 3), (), ()),
        ((4, 4), demand(1, spills=False), (0, 1, 2, 3), ((4, 5, 6, 7),), ()),
        ((1, 4), demand(spills=False), (1, 2, 3, 4), (), ()),
        ((4,), demand(1), (0,), ((1, 2, 3),), ((3, 2, 1),)),
    ],
)
def test_each_lane_is_inside_a_node(
    nodes: tuple[int, ...],
    wanted: Demand,
    retrieval: Cores,
    llm: tuple[Cores, ...],
    embedding: tuple[Cores, ...],
) -> None:
    is_lent = len(nodes) == 1
    assert share_cores(nodes_of(*nodes), wanted) == CoreShares(retrieval, llm, embedding, is_lent)


def test_cores_of_llm_lanes_that_fill_their_nodes_are_lent() -> None:
    shares = share_cores(nodes_of(4, 4), demand(2, accelerators=1))
    assert shares.llm == ((4, 5, 6), (1, 2, 3))
    assert shares.embedding == ((6, 5, 4), (3, 2, 1))
    assert shares.is_lent


def named(llm: int, *cores: Cores) -> Demand:
    return Demand(llm, 1, 1, named_cores=cores)


def test_named_lanes_have_what_they_name_and_the_rest_is_shared_without_them() -> None:
    shares = share_cores(nodes_of(4, 4), named(1, (2, 3), (4, 5)))
    assert shares == CoreShares((0, 1), ((6, 7),), ((3, 2), (5, 4)))
    assert share_cores(nodes_of(2), named(0, (1,))) == CoreShares((0,), (), ((1,),))


def test_where_named_lanes_leave_no_core_retrieval_shares_one_and_an_llm_is_refused() -> None:
    assert share_cores(nodes_of(2), named(0, (0,), (1,))) == CoreShares((0,), (), ((0,), (1,)))
    with pytest.raises(ConfigError, match="the LLM needs one: name fewer"):
        share_cores(nodes_of(2), named(1, (0,), (1,)))


@pytest.mark.parametrize("sizes", [(4,), (2, 2)])
def test_named_lanes_leave_each_llm_lane_a_core(sizes: tuple[int, ...]) -> None:
    two = replace(named(1, (2, 3)), llm_roles=(LaneRole.BOTH,) * 2)
    assert all(share_cores(nodes_of(*sizes), two).llm)
    three = replace(two, llm_roles=(LaneRole.BOTH,) * 3)
    with pytest.raises(
        ConfigError, match=r"leaves 2 of the cores .* each of the 3 LLM lanes needs"
    ):
        share_cores(nodes_of(*sizes), three)


def lanes_of(shares: CoreShares) -> Iterator[Cores]:
    yield shares.retrieval
    yield from shares.llm
    if not shares.is_lent:
        yield from shares.embedding


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    llm=st.integers(0, 4),
    llm_on_cpu=st.booleans(),
    accelerators=st.integers(0, 3),
    spills=st.booleans(),
)
def test_no_core_has_two_lanes_and_no_lane_two_nodes_where_that_can_be(
    sizes: list[int], llm: int, llm_on_cpu: bool, accelerators: int, spills: bool
) -> None:
    nodes, cores = nodes_of(*sizes), sum(sizes)
    if llm > cores:
        return  # refused before
    wanted = demand(llm, llm_on_cpu=llm_on_cpu, accelerators=accelerators, spills=spills)
    shares = share_cores(nodes, wanted)
    assert len(shares.llm) == llm
    assert all(lanes_of(shares))
    assert set(chain.from_iterable(lanes_of(shares))) <= set(range(cores))
    assert spills or not shares.embedding
    used = list(chain.from_iterable(lanes_of(shares)))
    if cores > llm + accelerators:
        assert len(used) == len(set(used)), "each lane has cores of its own"
        assert len(used) + accelerators <= cores, "a thread drives each accelerator"
    homes = [
        {n for n, node in enumerate(nodes) if set(lane) & set(node)} for lane in lanes_of(shares)
    ]
    # Of a core for each lane a plan inside the nodes is always there.
    if len(nodes) > 1 and cores - accelerators >= llm + len(nodes):
        assert all(len(home) == 1 for home in homes)
