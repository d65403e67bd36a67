"""What of a server's configuration and plan reaches its LLM lane."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from heddle.app.assembly.lanes import lane_limits, lane_specs
from heddle.app.assembly.placement import PROCESS_BYTES
from heddle.app.assembly.server_plan import plan_server
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError
from heddle.core.tasks import Optimizations
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.files.manifest import FOLDER, MANIFEST, IndexManifest, graph_path
from heddle.engines.vector.pool.build import PoolSettings
from heddle.hosts.lane_spec import LaneSpec
from heddle.hosts.machine import MachineFacts
from tests.helpers.bare_model import write_bare_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_bare_model(tmp_path / "model")


def machine(flags: frozenset[str] = frozenset(), gpus: tuple[str, ...] = ()) -> MachineFacts:
    return MachineFacts((0, 1), math.inf, "Test", flags, 8 << 30, 8 << 30, gpus)


def lanes_of(config: ServerConfig, facts: MachineFacts) -> tuple[LaneSpec, ...]:
    return lane_specs(plan_server(config, None, facts))


def test_the_limits_of_the_model_reach_its_lane(model: Path):
    config = ServerConfig(generator=model, context_tokens_max=2047, kv_cache_bytes=5 << 20)
    (lane,) = lanes_of(config, machine())
    settings = lane.engines[0].settings
    assert (settings.context_tokens_max, settings.kv_bytes) == (2047, 5 << 20)


@pytest.mark.parametrize(("budget", "removes"), [(None, False), (1 << 30, True)])
def test_only_a_budget_that_is_named_removes_stored_kv(
    model: Path, budget: int | None, removes: bool
):
    (lane,) = lanes_of(ServerConfig(generator=model, kv_reuse_disk_bytes=budget), machine())
    assert lane.engines[0].settings.chunk_kv_removes_excess is removes


@pytest.mark.parametrize("gpus", [(), ("Test GPU",)])
def test_a_lane_that_loads_more_may_take_longer_to_start(model: Path, gpus: tuple[str, ...]):
    plan = plan_server(ServerConfig(generator=model), None, machine(gpus=gpus))
    assert plan.generator is not None
    large = replace(plan, generator=replace(plan.generator, weight_bytes=14 * 10**9))
    assert 180 <= lane_limits(plan).start_s_max < 240
    assert lane_limits(large).start_s_max == 180 + 280, "read by a disk of 50 MB/s"


@pytest.fixture
def llama(model: Path) -> Path:
    """A model of a family whose layers are fused."""
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    return model


def test_the_llm_borrows_from_the_one_lane_of_retrieval(llama: Path):
    config = ServerConfig(llama, llama, embedder=llama)
    retrieval, llm = lanes_of(config, machine())
    assert (retrieval.borrows, llm.borrows) == (llm.name, retrieval.name)
    assert (retrieval.only_scans_borrow, llm.only_scans_borrow) == (True, False)


@pytest.mark.parametrize("changes", [{"lend_cores": False}, {"engine_host": "inline"}])
def test_where_no_cores_are_lent_no_lane_borrows(llama: Path, changes: dict[str, object]):
    config = replace(ServerConfig(llama, llama, embedder=llama), **changes)
    assert not plan_server(config, None, machine()).placement.lends_to_llm
    assert all(lane.borrows == "" for lane in lanes_of(config, machine()))


@pytest.mark.parametrize(("name", "dtype"), [("llama", "bfloat16"), ("model", "auto")])
def test_layers_that_are_not_fused_borrow_none(request, name: str, dtype: str):
    model = request.getfixturevalue(name)
    retrieval, llm = lanes_of(ServerConfig(model, model, embedder=model, dtype=dtype), machine())
    assert (retrieval.borrows, llm.borrows) == (llm.name, ""), "scans give cores back, they don't"


def test_a_graph_has_no_scans_that_borrow_cores(model: Path, tmp_path: Path):
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        config = ServerConfig(model, tmp_path / "corpus", embedder=model)
        assert plan_server(config, store, machine()).placement.lends_to_scans
        path = graph_path(store.place.work)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert not plan_server(config, store, machine()).placement.lends_to_scans


@pytest.mark.parametrize(
    ("kind", "options", "guesses"),
    [
        (None, {}, False),
        ("flat", {}, False),
        ("flat", {"speculate": "always"}, True),
        ("flat", {"lend_cores": False}, True),
        ("flat", {"lend_cores": False, "speculate": "never"}, False),
        ("pq", {}, True),
        ("panorama", {}, True),
        ("pq", {"speculate": "never"}, False),
    ],
)
def test_no_guess_takes_cores_from_the_scans_that_borrow_them(
    model: Path, tmp_path: Path, kind: str | None, options: dict[str, object], guesses: bool
):
    config = replace(ServerConfig(model, tmp_path / "corpus", embedder=model), **options)
    with CorpusStore.open(tmp_path / "corpus", create=True) as store:
        if kind is not None:
            manifest = IndexManifest("an index", 1, "", 1, 1, 8, "", kind, "auto", "", "")
            path = store.place.work / FOLDER / MANIFEST
            path.parent.mkdir(parents=True)
            path.write_text(manifest.to_json())
        plan = plan_server(config, store, machine())
    assert plan.search.guesses is guesses
    yields = kind in (None, "flat") and config.lend_cores and config.speculate == "auto"
    assert ("no prompt is computed ahead" in plan.search.line()) is yields


def test_an_llm_alone_has_no_one_to_borrow_from(llama: Path):
    config = ServerConfig(generator=llama)
    assert not plan_server(config, None, machine()).placement.lends_to_llm
    (lane,) = lanes_of(config, machine())
    assert lane.borrows == ""


def test_the_shards_of_an_index_are_planned_for(model: Path):
    configs = [ServerConfig(None, model, embedder=model, shards=shards) for shards in (1, 3)]
    one, three = (plan_server(config, None, machine()).placement for config in configs)
    assert three.total_bytes - one.total_bytes == 2 * PROCESS_BYTES


def test_the_effort_of_a_graph_reaches_its_lane(model: Path):
    config = ServerConfig(None, model, embedder=model, topm=200)
    (lane,) = lanes_of(config, machine())
    assert lane.engines[-1].settings.topm == 200


def test_nothing_of_a_graph_lies_on_a_gpu_unless_that_is_asked_for(model: Path):
    with_gpu = machine(gpus=("a GPU",))
    auto, asked = (
        ServerConfig(None, model, hot_clusters=share, embedder=model) for share in ("auto", "30%")
    )
    assert plan_server(auto, None, with_gpu).hot is not None
    graph_path(model).parent.mkdir()
    graph_path(model).touch()
    assert plan_server(auto, None, with_gpu).hot is None
    assert plan_server(asked, None, with_gpu).hot is not None


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
        ({"weights": "int8"}, machine(), False),
    ],
)
def test_weights_are_packed_for_float32_on_the_cpu(
    model: Path, settings: dict, facts: MachineFacts, packs: bool
):
    config = ServerConfig(generator=model, **settings)
    plan = plan_server(config, None, facts)
    (lane,) = lane_specs(plan)
    assert plan.placement.packs_weights == packs
    assert lane.engines[0].settings.packs_weights == packs
    assert lane.engines[0].settings.weights == config.weights


def test_llm_lanes_with_roles_divide_the_cores(model: Path):
    config = ServerConfig(
        generator=model, llm_lanes="prefill,decode,decode", optimizations=Optimizations.APPROX
    )
    facts = replace(machine(), cpus=tuple(range(16)), cpu_quota=8.0)  # so none is pinned
    lanes = lanes_of(config, facts)
    assert [lane.name for lane in lanes] == ["llm-prefill", "llm-decode-0", "llm-decode-1"]
    assert [lane.cpus for lane in lanes] == [()] * 3
    settings = [lane.engines[0].settings for lane in lanes]
    assert [each.threads for each in settings] == [2, 2, 2]
    assert [each.packs_weights for each in settings] == [False, True, True]
    assert [each.chunk_kv_bytes > 0 for each in settings] == [True, False, False]
    assert len({each.kv_bytes for each in settings}) == 1
    assert sum(each.device_kv_share for each in settings) == pytest.approx(0.5)
    named = lanes_of(replace(config, kv_cache_bytes=1 << 28), facts)
    assert {lane.engines[0].settings.device_kv_share for lane in named} == {0.0}


def test_more_llm_lanes_than_cores_are_refused(model: Path):
    config = ServerConfig(generator=model, llm_lanes="prefill,decode,decode")
    with pytest.raises(ConfigError, match=r"llm_lanes or replicas names 3 lanes, .* 2 cores"):
        plan_server(config, None, machine())


def test_a_pool_knows_how_many_lanes_send_kv_and_how_long_searches_wait(tmp_path: Path):
    def pool(**settings: str) -> PoolSettings:
        config = ServerConfig.of(None, tmp_path, {"search_pool": "adaptive", **settings})
        (lane,) = lanes_of(config, machine())
        return lane.engines[-1].settings.pool

    assert (pool().prefill_lanes, pool().flush_s) == (0, 0.0)
    assert pool(llm_lanes="prefill,prefill,decode").prefill_lanes == 2
    assert pool(search_pool_flush_s="0.008").flush_s == 0.008
