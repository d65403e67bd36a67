"""Which ports a runtime gets: several lanes of one kind stand behind one port."""

from pathlib import Path

import pytest

from heddle.app.assembly.assemble import disaggregated, sharded
from heddle.app.assembly.server_plan import ServerPlan, plan_server
from heddle.app.server_config import ServerConfig
from heddle.core.commands import KvSent, Steer
from heddle.engines.llm.lanes.disaggregated_port import DisaggregatedPort
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.engines.vector.shards.port import LostShard, ShardedPort
from tests.helpers.bare_model import write_bare_model
from tests.helpers.fake_ports import EMBED, LLM, VECTOR, FakePort


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_bare_model(tmp_path / "model")


def planned(model: Path, **settings: object) -> ServerPlan:
    return plan_server(ServerConfig.of(model, "corpus", {"embedder": model, **settings}), None)


def test_a_lane_alone_is_its_own_port(model: Path) -> None:
    ports = [FakePort("embedding", EMBED), FakePort("vector", VECTOR), FakePort("llm", LLM)]
    plan = planned(model)
    assert sharded(disaggregated(ports, plan), plan) == ports


def test_llm_lanes_with_roles_stand_behind_one_port(model: Path) -> None:
    vector = FakePort("vector", VECTOR)
    lanes = [FakePort("llm-prefill", LLM), FakePort("llm-decode", LLM)]
    plan = planned(model, llm_lanes="prefill,decode", max_num_seqs=3)
    first, whole = disaggregated([vector, *lanes], plan)
    assert first is vector
    assert isinstance(whole, DisaggregatedPort)
    assert whole.name == "llm"
    assert [(lane.port, lane.role) for lane in whole.lanes] == [
        (lanes[0], LaneRole.PREFILL),
        (lanes[1], LaneRole.DECODE),
    ]
    assert whole.credits.total == 12, "of the lanes that decode: two a seat, twice the seats"


@pytest.mark.parametrize("pool", [None, "adaptive"])
def test_a_vector_pool_hears_which_kv_was_sent(model: Path, pool: str | None) -> None:
    vector = FakePort("vector", VECTOR)
    lanes = [FakePort("llm-prefill", LLM), FakePort("llm-decode", LLM)]
    plan = planned(model, llm_lanes="prefill,decode", search_pool=pool)
    *_, whole = disaggregated([vector, *lanes], plan)
    assert isinstance(whole, DisaggregatedPort)
    sent = KvSent(sending_s=0.25, stepping_s=2.0)
    whole.on_sent(sent)
    assert vector.commands == ([Steer(kv_sent=sent)] if pool else [])


def test_the_lanes_of_a_sharded_index_stand_behind_one_port(model: Path) -> None:
    parts = [FakePort("vector-0", VECTOR), FakePort("vector-1", VECTOR)]
    llm = FakePort("llm", LLM)
    plan = planned(model, shards=2, lost_shard="degrade")
    first, whole = sharded([parts[0], llm, parts[1]], plan)
    assert first is llm
    assert isinstance(whole, ShardedPort)
    assert (whole.name, list(whole.ports)) == ("vector", parts)
    assert whole.lost_shard is LostShard.DEGRADE
