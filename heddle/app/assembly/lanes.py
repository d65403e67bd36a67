"""From a server's configuration to its lanes: which engines, with which settings, where."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from heddle.app.assembly.embedding_lanes import POOL, EmbeddingLane, embedding_engine
from heddle.app.assembly.placement import Demand, Placement, plan_placement
from heddle.app.models.model_source import model_directory
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory, disk_bytes_max
from heddle.app.server_config import ServerConfig
from heddle.core.commands import KvSent
from heddle.core.credits import Credits
from heddle.core.dtypes import auto_dtype
from heddle.core.errors import InputError
from heddle.core.ports import Clock, EnginePort
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.embedding.build import EmbeddingSettings, default_model_dir
from heddle.engines.llm.build import LlmSettings
from heddle.engines.llm.lanes.disaggregated_port import LLM_KINDS, DisaggregatedPort, LlmLane
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names, lane_roles
from heddle.engines.vector.build import VectorSettings
from heddle.engines.vector.files.index_bytes import index_bytes, mode_of
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.ivf.early_stop.setting import SPECULATIVE, target_recall
from heddle.engines.vector.ivf.hot.setting import AUTO, HotSettings, hot_settings
from heddle.engines.vector.pool.build import PREFILL_SLO_S, PoolSettings
from heddle.engines.vector.pool.policies import PoolPolicy
from heddle.engines.vector.shards.part import WHOLE, Part
from heddle.engines.vector.shards.port import LostShard, ShardedPort
from heddle.hosts.devices import DeviceKind, detect_devices, is_heterogeneous
from heddle.hosts.inline import InlineHost
from heddle.hosts.lane_main import call_factory
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import MachineFacts, memory_left
from heddle.kv.kv_encoding import KvEncoding

VECTOR: Final = "vector"
LLM: Final = "llm"
VECTOR_ROWS: Final = 256


def plan_for(config: ServerConfig, machine: MachineFacts, store: CorpusStore | None) -> Placement:
    """Return the placement of a server on this machine.

    Raises:
        ConfigError: it doesn't fit.
        InputError: a model isn't there.
    """
    llm = 0 if config.generator is None else _weight_bytes(model_directory(config.generator))
    embedder = 0 if config.index is None else _weight_bytes(embedder_directory(config))
    index = 0
    if store is not None and store.dims:
        index = index_bytes(mode_of(store.directory), store.vector_count, store.dims)
    devices = detect_devices(machine) if has_embedding_lanes(config) else ()
    demand = Demand(
        llm,
        embedder,
        index,
        packed_bytes=llm if _packing_pays(config, machine) else 0,
        llm_on_cpu=decoding_device(config, machine) is None,
        accelerators=sum(device.kind is not DeviceKind.CPU for device in devices),
        spills=is_heterogeneous(devices, config.heterogeneous),
        shards=config.shards,
        llm_roles=lane_roles(config.llm_lanes),
    )
    return plan_placement(machine, demand, config.kv_bytes)


def embedder_dtype(wanted: str, stored: EmbedderStamp | None, machine: MachineFacts) -> str:
    """Return the dtype to embed with: as asked, else as the corpus was embedded, else the fastest.

    One dtype for passages and questions: vectors of two are close, but not equal.
    (docs/architecture.md#exactness)
    """
    if wanted != "auto":
        return wanted
    if stored is not None:
        return stored.dtype
    return auto_dtype(has_fast_bfloat16=machine.has_amx or bool(machine.gpus))


def hot_clusters_on(config: ServerConfig, machine: MachineFacts) -> HotSettings | None:
    """Return which share of the index a device holds as well, and which device."""
    if config.hot_clusters == AUTO and config.index and graph_path(Path(config.index)).exists():
        return None  # a graph has no clusters, and nobody has asked for any
    has_gpu = bool(machine.gpus) and config.device != "cpu"
    return hot_settings(config.hot_clusters, has_gpu=has_gpu)


def decoding_device(config: ServerConfig, machine: MachineFacts) -> str | None:
    """Return the accelerator that the LLM runs on, as torch names it; None = on the CPU."""
    has_llm = config.generator is not None and config.device != "cpu"
    return "cuda:0" if has_llm and machine.gpus else None


def lane_specs(
    config: ServerConfig,
    placement: Placement,
    dtype: str,
    embedding: Sequence[EmbeddingLane] = (),
    hot: HotSettings | None = None,
) -> tuple[LaneSpec, ...]:
    """Return the lanes of a server: retrieval where there is an index, LLM where a generator.

    Args:
        config: the server's.
        placement: its plan.
        dtype: the embedder's, from `embedder_dtype`.
        embedding: embedding lanes of their own, from `plan_embedding_lanes`; () = the embedding
            engine shares the retrieval lane.
        hot: the device for hot clusters, from `hot_clusters_on`; None = none.
    """
    lanes = []
    if config.index is not None:
        threads = placement.retrieval_threads(config.shards)
        cpus = placement.retrieval_cpus if placement.is_pinned else ()
        for number in range(config.shards):
            part = Part(number, config.shards)
            engines: tuple[EngineSpec, ...] = (_vector(config, threads, hot, part),)
            if not embedding and number == 0:
                engines = (_embedding(config, threads, dtype), *engines)
            lanes.append(LaneSpec(_numbered("retrieval", part), engines, cpus, threads))
        model = str(embedder_directory(config))
        lanes += [lane.spec(model, config.long_texts) for lane in embedding]
    if config.generator is not None:
        roles = placement.llm_roles
        for (name, cpus), role in zip(placement.llm_lanes.items(), roles, strict=True):
            threads = max(1, len(cpus))
            llm = _llm(config, placement, name, role, threads)
            lanes.append(LaneSpec(name, (llm,), cpus if placement.is_pinned else (), threads))
    return tuple(lanes)


def inline_hosts(specs: tuple[LaneSpec, ...], clock: Clock) -> Iterator[InlineHost]:
    """Build the lanes' engines in this process, one after another; the caller closes each.

    Needs the running loop that will step them.
    """
    for lane in specs:
        for spec in lane.engines:
            yield InlineHost(call_factory(spec, epoch=1), spec.credits_total, clock)


def embedder_directory(config: ServerConfig) -> Path:
    """Return the directory of a server's encoder."""
    return default_model_dir() if config.embedder is None else model_directory(config.embedder)


def _embedding(config: ServerConfig, threads: int, dtype: str) -> EngineSpec:
    directory = str(embedder_directory(config))
    settings = EmbeddingSettings(directory, dtype, threads=threads, long_texts=config.long_texts)
    return embedding_engine(POOL, settings)


def sharded(
    ports: Sequence[EnginePort], lost_shard: LostShard, is_up: Callable[[EnginePort], bool]
) -> ShardedPort:
    """Put the workers of a sharded index behind one port."""
    return ShardedPort(VECTOR, ports, is_up, lost_shard, Credits(VECTOR_ROWS))


def _numbered(name: str, part: Part) -> str:
    return name if part == WHOLE else f"{name}-{part.number}"


def _vector(config: ServerConfig, threads: int, hot: HotSettings | None, part: Part) -> EngineSpec:
    assert config.index is not None, "a vector engine needs a corpus"
    pool = None
    if config.pool is not None:
        slo_s = PREFILL_SLO_S if config.pool_slo_s is None else config.pool_slo_s
        prefill_lanes = lane_roles(config.llm_lanes).count(LaneRole.PREFILL)
        pool = PoolSettings(
            PoolPolicy(config.pool), prefill_slo_s=slo_s, prefill_lanes=prefill_lanes
        )
    settings = VectorSettings(
        Path(config.index),
        config.nprobe,
        threads=threads,
        pool=pool,
        hot=hot,
        part=part,
        topm=config.topm,
        target_recall=target_recall(config.search),
        speculates=config.search == SPECULATIVE,
        memory_left=memory_left,
    )
    return EngineSpec(
        _numbered(VECTOR, part),
        "heddle.engines.vector.build:build_engine",
        settings,
        VECTOR_ROWS,
        frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION}),
    )


def disaggregated(
    ports: Sequence[EnginePort],
    config: ServerConfig,
    is_up: Callable[[EnginePort], bool],
    on_sent: Callable[[KvSent], None],
) -> DisaggregatedPort:
    """Put LLM lanes, which come in the order of `config.llm_lanes`, behind one port."""
    roles = lane_roles(config.llm_lanes)
    seats = config.max_num_seqs
    lanes = [LlmLane(port, role, seats) for port, role in zip(ports, roles, strict=True)]
    # As for one lane: twice the seats, two credits a generation.
    credits = Credits(4 * seats * sum(role.decodes for role in roles))
    return DisaggregatedPort(LLM, lanes, is_up, on_sent, credits)


def llm_lane_names(config: ServerConfig) -> tuple[str, ...]:
    """Return the names of a server's LLM lanes."""
    return lane_names(lane_roles(config.llm_lanes))


def _llm(
    config: ServerConfig, placement: Placement, name: str, role: LaneRole, threads: int
) -> EngineSpec:
    assert config.generator is not None, "an LLM engine needs a model"
    keeps_chunks = config.optimizations is Optimizations.APPROX and role.prefills
    settings = LlmSettings(
        model_directory(config.generator),
        dtype=config.dtype,
        device=config.device,
        attention=config.attention,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        background_step_s=config.background_step_s,
        kv_bytes=placement.kv_bytes,
        context_tokens_max=config.context_tokens_max,
        chunk_kv_bytes=config.chunk_kv_bytes if keeps_chunks else 0,
        chunk_kv_encoding=KvEncoding(config.chunk_kv_encoding),
        corpus_dir=None if config.index is None else Path(config.index),
        chunk_kv_dir=None if config.index is None else chunk_kv_directory(config.index),
        chunk_kv_disk_bytes=disk_bytes_max(config) if keeps_chunks else 0,
        packs_weights=placement.packs_weights and role.decodes,
        threads=threads,
    )
    # A prefill and its decode take a credit each; twice the slots keep the lane's own queue fed.
    return EngineSpec(
        name,
        "heddle.engines.llm.build:build_engine",
        settings,
        4 * config.max_num_seqs,
        LLM_KINDS,
    )


def has_embedding_lanes(config: ServerConfig) -> bool:
    """Whether accelerators have embedding lanes: engines in the server's process have none."""
    return config.index is not None and config.host == "process"


def _packing_pays(config: ServerConfig, machine: MachineFacts) -> bool:
    """Whether the LLM runs in float32 on the CPU. (ADR 8)"""
    on_cpu = config.device == "cpu" or (config.device == "auto" and not machine.gpus)
    dtype = config.dtype
    if dtype == "auto":
        dtype = auto_dtype(has_fast_bfloat16=machine.has_amx)
    return on_cpu and dtype == "float32"


def _weight_bytes(directory: Path) -> int:
    """Return the size of a model's weights, twice: float32 of bfloat16 files at the worst.

    Raises:
        InputError: the directory holds no safetensors.
    """
    sizes = [f.stat().st_size for f in directory.glob("*.safetensors")]
    if not sizes:
        raise InputError(
            f"model {str(directory)!r} holds no .safetensors; Heddle loads no other weights: "
            "save the model again with save_pretrained(safe_serialization=True)"
        )
    return 2 * sum(sizes)
