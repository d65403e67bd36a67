"""Which lanes have which role, for each form that a server may have."""

from pathlib import Path

import pytest

from heddle.app.assembly.lanes import lane_specs
from heddle.app.assembly.served_roles import served_roles
from heddle.app.assembly.server_plan import plan_server
from heddle.app.server_config import ServerConfig
from heddle.hosts.machine import MachineFacts
from tests.helpers.bare_model import write_bare_model

MACHINE = MachineFacts(  # with a quota, so that no lane is pinned
    tuple(range(8)), 4.0, "Test", frozenset({"avx512f"}), 64 << 30, 64 << 30, ()
)
ONE = ("retrieval",)
TWO = ("retrieval-0", "retrieval-1")


@pytest.mark.parametrize(
    ("settings", "roles"),
    [
        ({}, {"embedding": ONE, "reading": ONE, "search": ONE, "llm": ("llm",)}),
        (
            {"replicas": "llm=2,retrieval=2"},
            {
                "embedding": TWO,
                "reading": TWO,
                "search": TWO,
                "llm": ("llm-both-0", "llm-both-1"),
            },
        ),
        (
            {"llm_lanes": "prefill,decode,both"},
            {
                "embedding": ONE,
                "reading": ONE,
                "search": ONE,
                "llm-prefill": ("llm-prefill", "llm-both"),
                "llm-decode": ("llm-decode", "llm-both"),
            },
        ),
        (
            {"shards": 2},
            {
                "embedding": TWO[:1],
                "reading": TWO[:1],
                "search-0": TWO[:1],
                "search-1": TWO[1:],
                "llm": ("llm",),
            },
        ),
        (
            {"shards": 2, "lost_shard": "degrade"},
            {"embedding": TWO[:1], "reading": TWO[:1], "search": TWO, "llm": ("llm",)},
        ),
        (
            {"embedding_lanes": "cpu:0,cpu:1"},
            {
                "embedding": ("embedding-cpu0", "embedding-cpu1"),
                "reading": ("embedding-cpu0",),
                "search": ONE,
                "llm": ("llm",),
            },
        ),
    ],
)
def test_each_lane_has_the_roles_of_its_engines(
    tmp_path: Path, settings: dict[str, object], roles: dict[str, tuple[str, ...]]
) -> None:
    model = write_bare_model(tmp_path / "model")
    config = ServerConfig.of(model, tmp_path, settings)
    plan = plan_server(config, None, MACHINE)
    assert served_roles(plan, lane_specs(plan)) == roles
