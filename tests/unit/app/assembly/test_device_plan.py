"""A GPU's memory is planned: nothing over what is free, and what can't fit is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.app.assembly.demand import KV_BYTES_MIN
from heddle.app.assembly.device_memory import DeviceMemory
from heddle.app.assembly.device_plan import (
    CONTEXT_BYTES,
    DEVICE_SHARE,
    DeviceDemand,
    plan_device,
)
from heddle.core.errors import ConfigError
from heddle.costs.memory_split import Bound, MemorySplit, StageMix

GIB = 1 << 30
H100 = DeviceMemory(80 * GIB, 79 * GIB)


def split_at(kv_bytes):
    """Return what splits any budget at these bytes."""
    return lambda budget: MemorySplit(
        kv_bytes, budget - kv_bytes, 2.0, Bound.RETRIEVAL, StageMix(1.0, 2.0)
    )


@given(
    free=st.integers(1 << 20, 100 * GIB),
    lanes=st.integers(1, 4),
    llm=st.integers(1, 40 * GIB),
    vectors=st.integers(0, 100 * GIB),
    wanted=st.one_of(st.none(), st.floats(0.01, 1.0)),
    kv=st.one_of(st.none(), st.integers(1 << 20, 40 * GIB)),
    profiled=st.booleans(),
)
def test_a_plan_never_exceeds_what_is_free(free, lanes, llm, vectors, wanted, kv, profiled):
    demand = DeviceDemand(lanes, llm, 1 << 20, lanes + 1, vectors, wanted)
    split = split_at(KV_BYTES_MIN) if profiled else None
    least = lanes * (KV_BYTES_MIN if kv is None else kv)
    fits = demand.fixed_bytes + least <= int(free * DEVICE_SHARE)
    try:
        plan = plan_device("cuda:0", DeviceMemory(free, free), demand, kv, split)
    except ConfigError:
        assert not fits
        return
    assert fits
    assert plan.total_bytes <= plan.limit_bytes
    assert plan.kv_bytes >= (KV_BYTES_MIN if kv is None else kv)
    assert 0 <= plan.hot_share <= 1
    assert wanted is None or plan.hot_share == wanted


def test_kv_pages_take_what_weights_and_hot_clusters_leave():
    plan = plan_device("cuda:0", H100, DeviceDemand(1, 14 * GIB, vector_bytes=10 * GIB))
    assert plan.hot_share == pytest.approx(0.2)
    assert plan.kv_bytes == plan.limit_bytes - 14 * GIB - CONTEXT_BYTES - plan.hot_bytes
    two = plan_device("cuda:0", H100, DeviceDemand(2, 14 * GIB, processes=2))
    assert two.kv_bytes == (two.limit_bytes - 28 * GIB - 2 * CONTEXT_BYTES) // 2
    assert "weights 28,672 MiB, KV pages" in two.line()
    assert "hot clusters" not in two.line()


def test_what_a_memory_profile_leaves_is_for_hot_clusters():
    demand = DeviceDemand(1, 14 * GIB, vector_bytes=100 * GIB)
    few = plan_device("cuda:0", H100, demand, None, split_at(8 * GIB))
    many = plan_device("cuda:0", H100, demand, None, split_at(40 * GIB))
    assert (few.kv_bytes, many.kv_bytes) == (8 * GIB, 40 * GIB)
    assert few.hot_bytes - many.hot_bytes == pytest.approx(32 * GIB, rel=1e-6)
    assert few.split is not None
    assert few.split.rest_bytes == pytest.approx(few.hot_bytes, rel=1e-6)
    whole = plan_device(
        "cuda:0", H100, DeviceDemand(1, GIB, vector_bytes=GIB), None, split_at(8 * GIB)
    )
    assert whole.hot_share == 1.0
    asked = plan_device("cuda:0", H100, demand, 4 * GIB, split_at(8 * GIB))
    assert (asked.kv_bytes, asked.split) == (4 * GIB, None)


def test_what_does_not_fit_is_refused_with_what_takes_how_much():
    with pytest.raises(ConfigError, match=r"weights 81,920 MiB, KV 16 MiB.*set device to cpu"):
        plan_device("cuda:0", H100, DeviceDemand(1, 80 * GIB))
    with pytest.raises(ConfigError, match=r"KV 71,680 MiB.*lower kv_cache_bytes"):
        plan_device("cuda:0", H100, DeviceDemand(1, GIB), 70 * GIB)
