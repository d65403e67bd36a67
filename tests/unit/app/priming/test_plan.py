"""How many chunks are primed at once, and which settings can't hold them."""

import pytest

from heddle.app.priming.plan import (
    HITS_MAX,
    IN_FLIGHT_MAX,
    LOADS_MAX,
    PREFIX,
    PrimingPlan,
    chunks_at_once,
    hits_wanted,
)
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.workflow.presets import ANSWER, SUMMARY


def at_once(neighbours_max: int, chunk_bytes: int, memory: int) -> int:
    config = ServerConfig(kv_reuse_memory_bytes=memory)
    return chunks_at_once(config, PrimingPlan(5, 50, chunk_bytes, 0, {}), neighbours_max)


def test_the_prefix_is_that_of_the_prompts():
    assert ANSWER.startswith(PREFIX + "{docs}")
    assert not SUMMARY.startswith(PREFIX)


def test_neighbours_on_their_way_from_disk_bound_it():
    assert at_once(1, 1, 1 << 20) == IN_FLIGHT_MAX
    assert at_once(10, 1, 1 << 20) == 6
    assert at_once(LOADS_MAX * 2, 1, 1 << 20) == 1


def test_host_memory_bounds_it():
    assert at_once(10, 100, 3500) == 3
    assert at_once(10, 100, 1000) == 1
    with pytest.raises(
        ConfigError, match=r"takes up to 1,000 .*kv_reuse_memory_bytes \(999\): raise it"
    ):
        at_once(10, 100, 999)


def test_more_is_searched_for_where_others_own_most():
    assert hits_wanted(900, 1000, 10) == 24
    assert hits_wanted(99, 1000, 10) == 204
    assert hits_wanted(1, 1000, 10) == HITS_MAX
    assert hits_wanted(7, 7, 10) == 21
    assert hits_wanted(0, 0, 10) == 21, "it was the last one, and is deleted"
