"""What a configuration stands for on a machine, and that each fact is looked up once."""

import json
import math
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from heddle.app.assembly import server_plan
from heddle.app.assembly.cluster_plan import NodeFacts
from heddle.app.assembly.device_memory import DeviceMemory
from heddle.app.assembly.lanes import lane_specs
from heddle.app.assembly.server_plan import ServerPlan, embedder_dtype, plan_server
from heddle.app.memory_profile import MemoryProfile, write_profile
from heddle.app.models.model_source import model_directory
from heddle.app.replicas import roles_of
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.core.errors import ConfigError, InputError
from heddle.core.tasks import Optimizations
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.costs.memory_split import Bound, MeasuredCurves, RatePoint, StageMix
from heddle.encoder.encoder_directory import EncoderDirectory
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.engines.vector.ivf.hot.setting import HotSettings, hot_settings
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.port import LostShard
from heddle.hosts.devices import detect_devices
from heddle.hosts.lane_spec import EngineSpec
from heddle.hosts.machine import MachineFacts, read_machine
from heddle.kv.kv_encoding import KvEncoding
from tests.helpers.bare_model import write_bare_model
from tests.helpers.counted_calls import count_calls
from tests.helpers.echo_engine import EchoEngine, EchoSettings

# They parse texts to refuse the wrong ones.
CONFIG = ("heddle.app.server_config", "heddle.app.config_checks")


def machine(flags: frozenset[str] = frozenset(), gpus: tuple[str, ...] = ()) -> MachineFacts:
    return MachineFacts((0, 1, 2, 3), math.inf, "Test", flags, 8 << 30, 8 << 30, gpus)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_bare_model(tmp_path / "llm")


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return write_bare_model(tmp_path / "encoder")


def planned(facts: MachineFacts | None = None, **settings: object) -> ServerPlan:
    config = ServerConfig.of(
        settings.pop("generator", "reader"), settings.pop("index", None), settings
    )
    return plan_server(config, None, facts or machine())


def test_names_become_directories(model: Path, encoder: Path):
    plan = planned(generator=model, index="corpus", embedder=encoder)
    assert plan.generator is not None
    assert plan.embedder is not None
    assert plan.encoder is not None
    assert plan.generator.directory == model
    assert plan.generator.weight_bytes == 1000
    assert plan.generator.fingerprint.startswith("llm-")
    assert plan.embedder.directory == plan.encoder.path == encoder
    assert plan.embedder.fingerprint == plan.encoder.name


@pytest.mark.parametrize(
    ("replicas", "said"), [("llm=1", "llm: on node n0"), ("llm=2", "llm: on nodes n0, n1")]
)
def test_an_llm_on_nodes_is_said_to_be_there(model: Path, replicas: str, said: str):
    config = ServerConfig.of(model, None, {"ray": "auto", "replicas": replicas})
    nodes = [NodeFacts(f"n{i}", machine(), (machine().cpus,)) for i in range(2)]
    assert said in plan_server(config, None, machine(), nodes).placement_lines()
    assert any("KV pages" in line for line in planned(generator=model).placement_lines())
    alone = planned(generator=None, index="corpus")
    assert "llm: none" in alone.placement_lines()
    asked = replace(alone, remote=SimpleNamespace(generator="a model"))
    assert "llm: on another server" in asked.placement_lines()


def test_texts_become_settings(model: Path, encoder: Path):
    plan = planned(
        generator=model,
        index="corpus",
        embedder=encoder,
        llm_lanes="prefill,decode",
        recall=0.9,
        search_pool="adaptive",
        lost_shard="degrade",
        hot_clusters="25%",
        kv_reuse_encoding="int8",
        optimizations=Optimizations.APPROX,
    )
    assert plan.roles == (LaneRole.PREFILL, LaneRole.DECODE)
    assert (plan.search.recall, plan.search.speculates) == (0.9, True)
    assert plan.pool is not None
    assert (plan.pool.policy, plan.pool.prefill_lanes) == (PoolPolicy.ADAPTIVE, 1)
    assert plan.lost_shard is LostShard.DEGRADE
    assert plan.hot is not None
    assert plan.hot.share == 0.25
    assert plan.kv_encoding is KvEncoding.INT8


def test_a_server_without_a_corpus_embeds_nothing(model: Path):
    plan = planned(generator=model)
    assert (plan.embedder, plan.encoder, plan.embedders, plan.embedding) == (None, None, (), ())


def test_what_embeds(model: Path, encoder: Path):
    settings = {"generator": model, "index": "corpus", "embedder": encoder}
    assert [lane.name for lane in planned(**settings).embedders] == ["embedding"]
    with_gpu = machine(gpus=("a GPU",))
    names = [lane.name for lane in planned(with_gpu, **settings).embedders]
    assert names == ["embedding-cuda0"]
    inline = planned(with_gpu, **settings, engine_host="inline")
    assert (inline.embedding, inline.placement.accelerators) == ((), 0)
    assert len(inline.devices) == 2


def test_a_plan_can_not_be_changed(model: Path):
    with pytest.raises(FrozenInstanceError):
        planned(generator=model).roles = ()


def test_a_model_without_weights_is_refused(model: Path):
    (model / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"holds no \.safetensors"):
        planned(generator=model)


def test_the_dtype_of_questions_is_that_of_the_passages():
    stored = EmbedderStamp("encoder", 8, "float32")
    with_amx = machine(frozenset({"amx_bf16"}))
    assert embedder_dtype("bfloat16", stored, machine()) == "bfloat16"
    assert embedder_dtype("auto", stored, with_amx) == "float32"
    assert embedder_dtype("auto", None, with_amx) == "bfloat16"
    assert embedder_dtype("auto", None, machine(gpus=("a GPU",))) == "bfloat16"
    assert embedder_dtype("auto", None, machine()) == "float32"


def test_the_plan_in_words_and_as_json(model: Path, encoder: Path):
    settings = {"generator": model, "index": "corpus", "embedder": encoder, "reranker": None}
    plan = planned(machine(gpus=("a GPU",)), **settings, speculate="always")
    lines = list(plan.lines())
    assert lines[0].endswith("of weights, lanes llm (both)")
    assert lines[1].startswith("KV pages lie on cuda:0: the lane takes half of what it finds")
    assert lines[2].endswith("of weights, computed in bfloat16")
    assert lines[3:] == [
        "searches scan every list that they plan, and prompts are computed ahead with the hits "
        "so far",
        "oneshot keeps its passages as they are found: prompts are computed while their search "
        "still runs",
        "20% of the vectors also on cuda",
    ]
    record = json.loads(json.dumps(plan.record()))
    assert record["llm_lanes"] == ["both"]
    assert record["generator"]["directory"] == str(model)
    assert (record["speculates"], record["hot_share"]) == (True, 0.2)
    alone = planned(index="corpus", generator=None, embedder=encoder)
    assert list(alone.lines())[1:] == ["searches scan every list that they plan"]
    assert alone.record()["llm_lanes"] == []


def test_weights_of_8_bits_are_planned_for_and_named(model: Path):
    full, int8 = planned(generator=model), planned(generator=model, weights="int8")
    assert next(int8.lines()).endswith("of weights, kept as int8, lanes llm (both)")
    assert int8.generator.fingerprint != full.generator.fingerprint
    assert 3 * int8.generator.loaded_bytes_max <= full.generator.loaded_bytes_max


def test_a_recall_in_words(encoder: Path):
    plan = planned(
        generator=None,
        index="corpus",
        embedder=encoder,
        recall=0.95,
        optimizations=Optimizations.APPROX,
    )
    assert "searches stop at a recall of 0.95" in list(plan.lines())


def test_each_fact_is_looked_up_once(
    model: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    CorpusStore.open(tmp_path / "corpus", create=True).close()

    def build(spec: EngineSpec, epoch: int) -> EchoEngine:
        engine = EchoEngine(spec.name, epoch, EchoSettings())
        engine.kinds = spec.kinds
        return engine

    monkeypatch.setattr("heddle.app.assembly.assemble.call_factory", build)
    calls = {
        function.__name__: count_calls(monkeypatch, function, but_in=CONFIG)
        for function in (
            read_machine,
            detect_devices,
            roles_of,
            model_directory,
            hot_settings,
        )
    }
    opened = count_calls(monkeypatch, server_plan.open_embedder)
    read = EncoderDirectory.open
    directories: list[object] = []

    def open_directory(path: str | None) -> EncoderDirectory:
        directories.append(path)
        return read(path)

    monkeypatch.setattr(EncoderDirectory, "open", open_directory)
    settings = {"embedder": encoder, "engine_host": "inline"}
    config = ServerConfig.of(model, tmp_path / "corpus", settings)
    with Server.from_config(config, needs_vectors=False) as server:
        assert server.plan.machine.cores >= 1
    assert sorted(calls.pop("model_directory")) == [(encoder,), (model,)]
    assert {name: len(made) for name, made in calls.items()} == dict.fromkeys(calls, 1)
    assert (len(opened), len(directories)) == (1, 1)


def test_a_memory_profile_of_this_model_decides_how_much_kv_there_is(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    points = (RatePoint(1.0, 1.0), RatePoint(4.0, 2.0))
    curves = MeasuredCurves({48 << 20: points, 96 << 20: points}, points)
    file, own = tmp_path / "memory.json", planned(generator=model).generator
    assert own is not None
    profile = MemoryProfile(curves, StageMix(1.0, 1.0), "oneshot", own.fingerprint, "Test")
    write_profile(profile, file)
    plan = planned(generator=model, memory_profile=str(file), expected_rate=1.0)
    assert plan.placement.kv_bytes == 48 << 20
    assert plan.placement.split is not None
    assert plan.placement.split.bound is Bound.LOAD
    other = planned(generator=model, memory_profile=str(file), stage_mix="0,4")
    assert other.placement.split is not None
    assert other.placement.split.requests_per_s == 0.5
    assert json.loads(json.dumps(asdict(other.placement)))["split"][3] == "retrieval"
    assert "memory_profile" not in caplog.text
    write_profile(replace(profile, cpu="another CPU"), file)
    assert planned(generator=model, memory_profile=file).placement.kv_bytes == 48 << 20
    assert "was measured on another CPU, and this machine has Test" in caplog.text
    write_profile(replace(profile, generator="another"), file)
    with pytest.raises(ConfigError, match="was measured with another"):
        planned(generator=model, memory_profile=file)
    write_profile(profile, file)
    with pytest.raises(ConfigError, match=r"lanes both, and .* make prefill, decode"):
        planned(generator=model, memory_profile=file, llm_lanes="prefill,decode")


def test_a_gpus_memory_is_planned_and_its_lane_takes_what_was_planned(model: Path, encoder: Path):
    gib = 1 << 30
    config = ServerConfig.of(model, "corpus", {"embedder": encoder})
    with_gpu = replace(machine(gpus=("a GPU",)), cpus=(0, 1))  # those that this process has
    told = plan_server(config, None, with_gpu, (), lambda: DeviceMemory(80 * gib, 79 * gib))
    untold = plan_server(config, None, with_gpu, (), lambda: None)
    device = told.placement.device
    assert device is not None
    assert told.kv_bytes == device.kv_bytes > 60 * gib
    assert told.placement.total_bytes < untold.placement.total_bytes < 8 * gib
    assert "cuda:0: " in "".join(told.placement.lines())
    for plan, share in ((told, 0.0), (untold, 0.5)):
        (settings,) = (lane.engines[0].settings for lane in lane_specs(plan) if lane.name == "llm")
        assert (settings.kv_bytes, settings.device_kv_share) == (plan.kv_bytes, share)
    assert any("nvidia-smi doesn't tell" in line for line in untold.lines())
    assert not any("nvidia-smi" in line for line in told.lines())
    with pytest.raises(ConfigError, match=r"cuda:0 would have to hold .* set device to cpu"):
        plan_server(config, None, with_gpu, (), lambda: DeviceMemory(gib, gib // 2))
    asdict(told.placement)  # as `heddle doctor --json` has it


def test_hot_clusters_get_what_the_device_has_room_for(model: Path, encoder: Path, tmp_path: Path):
    """The corpus has as many vectors as this, by its own word."""
    store = SimpleNamespace(
        dims=384,
        vector_count=1_000_000,
        place=SimpleNamespace(work=tmp_path),
        embedder=None,
    )
    free = DeviceMemory(3 << 30, 3 << 30)

    def hot(**settings: str) -> HotSettings | None:
        config = ServerConfig.of(model, "corpus", {"embedder": encoder, **settings})
        plan = plan_server(config, store, machine(gpus=("a GPU",)), (), lambda: free)
        return plan.hot

    auto, asked = hot(), hot(hot_clusters="60%")
    assert auto is not None
    assert asked is not None
    assert (auto.share, asked.share) == (pytest.approx(0.2), 0.6)
    assert hot(hot_clusters="off") is None
    with pytest.raises(ConfigError, match="hot_clusters"):
        hot(hot_clusters="100%", kv_cache_bytes="1GiB")
