"""What of a server's configuration and plan reaches its LLM lane."""

import math
from pathlib import Path

import pytest

from heddle.app.lanes import lane_specs, plan_for
from heddle.app.placement import PROCESS_BYTES
from heddle.app.server_config import ServerConfig
from heddle.hosts.machine import MachineFacts


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    return tmp_path


def machine(flags: frozenset[str] = frozenset(), gpus: tuple[str, ...] = ()) -> MachineFacts:
    return MachineFacts((0, 1), math.inf, "Test", flags, 8 << 30, 8 << 30, gpus)


def test_the_limits_of_the_model_reach_its_lane(model: Path):
    config = ServerConfig(generator=model, context_tokens_max=2047, kv_bytes=5 << 20)
    (lane,) = lane_specs(config, plan_for(config, machine(), None), "float32")
    settings = lane.engines[0].settings
    assert (settings.context_tokens_max, settings.kv_bytes) == (2047, 5 << 20)


def test_the_shards_of_an_index_are_planned_for(model: Path):
    one, three = (
        plan_for(ServerConfig(None, model, embedder=model, shards=shards), machine(), None)
        for shards in (1, 3)
    )
    assert three.total_bytes - one.total_bytes == 2 * PROCESS_BYTES


@pytest.mark.parametrize(
    ("settings", "facts", "packs"),
    [
        ({}, machine(), True),
        ({}, machine(gpus=("a GPU",)), False),
        ({"device": "cpu"}, machine(gpus=("a GPU",)), True),
        ({"device": "cuda"}, machine(), False),
        ({}, machine(frozenset({"amx_bf16"})), False),
        ({"dtype": "float32"}, machine(frozenset({"amx_bf16"})), True),
        ({"dtype": "bfloat16"}, machine(), False),
    ],
)
def test_weights_are_packed_for_float32_on_the_cpu(
    model: Path, settings: dict, facts: MachineFacts, packs: bool
):
    config = ServerConfig(generator=model, **settings)
    placement = plan_for(config, facts, None)
    (lane,) = lane_specs(config, placement, "float32")
    assert placement.packs_weights == packs
    assert lane.engines[0].settings.packs_weights == packs
