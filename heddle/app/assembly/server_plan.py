"""The plan of a server: all that its configuration stands for on this machine, found out once.

Names become directories, texts become settings, and the machine is read, in `plan_server` alone.
What assembles the server afterwards only reads the plan; `heddle doctor` prints it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from heddle.app.assembly.cluster_demand import cluster_of
from heddle.app.assembly.cluster_plan import ClusterPlan, LanePlace, NodeFacts
from heddle.app.assembly.demand import Cores, Demand
from heddle.app.assembly.device_memory import TOOL, DeviceMemory, read_device_memory
from heddle.app.assembly.device_plan import DeviceDemand, DevicePlan, plan_device
from heddle.app.assembly.embedding_lanes import (
    EmbeddingLane,
    device_lines,
    plan_embedding_lanes,
    retrieval_embedder,
)
from heddle.app.assembly.graph_device import NO_GRAPH, GraphDevice, choose_graph_device
from heddle.app.assembly.memory_splitter import MemorySplitter, memory_splitter
from heddle.app.assembly.named_lanes import check_named_lanes
from heddle.app.assembly.placement import Placement, plan_placement
from heddle.app.assembly.readers import Reader, plan_readers
from heddle.app.assembly.reranking_choice import RerankingChoice, choose_reranking
from heddle.app.embedding_depths import MeasuredOn, WindveDepths, windve_depths
from heddle.app.models.embedder_source import open_embedder
from heddle.app.models.model_files import (
    ModelFiles,
    embedder_files,
    generator_files,
)
from heddle.app.models.model_source import model_directory
from heddle.app.models.prompt_files import prompts_of
from heddle.app.models.remote_models import NO_REMOTE_MODELS, RemoteModels, open_remote_models
from heddle.app.priming.chunk_kv_disk import readable_size
from heddle.app.remote.refusals import check_remote_models
from heddle.app.replicas import replicas_of, roles_of
from heddle.app.server_config import ServerConfig
from heddle.app.server_writing import server_writing
from heddle.core.dtypes import WHOLE, auto_dtype
from heddle.core.errors import ConfigError
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.corpus.vector_index import VectorIndexKind
from heddle.costs.speculation import SHARED_BUSY_MAX
from heddle.encoder.encoder_directory import EncoderDirectory
from heddle.engines.embedding.wanted_lanes import WantedLane, wanted_lanes
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
from heddle.engines.llm.model.fused_types import fuses_on_cpu
from heddle.engines.llm.text.chat_template import read_json
from heddle.engines.vector.files.index_bytes import (
    device_bytes,
    index_bytes,
    kind_of,
    mode_of,
)
from heddle.engines.vector.files.index_kind import IndexKind, SearchMode, kind_for
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph.build import HOST as GRAPH_HOST
from heddle.engines.vector.ivf.hot.setting import AUTO, HotSettings, hot_settings
from heddle.engines.vector.pool.build import PoolSettings
from heddle.engines.vector.pool.limits import PREFILL_SLO_S
from heddle.engines.vector.shards.port import LostShard
from heddle.hosts.devices import Device, DeviceKind, detect_devices
from heddle.hosts.machine import MachineFacts, read_machine
from heddle.hosts.numa.memory_policy import binding_problem
from heddle.kv.kv_encoding import KvEncoding
from heddle.workflow.model_prompts import ModelPrompts
from heddle.workflow.writing import Writing

REMOTE_DTYPE: Final = "float32"  # of vectors as other servers send them
EMBEDDINGS_BYTES: Final = 64 << 20  # of MiniLM in float32, where they can't be shared


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How far searches go.

    Args:
        recall: the share of the exact hits that searches find on average; None = a search scans
            every list that it plans.
        speculates: whether prompts are computed with the hits of a search that still runs.
        busy_max: the share of time that an LLM lane may work while they are; None = none is, but
            stored KV is read ahead.
        inside: the index inside the corpus's database that is searched; None = Heddle's own is.
    """

    recall: float | None
    speculates: bool
    busy_max: float | None = 1.0
    inside: VectorIndexKind | None = None

    def line(self) -> str:
        """Return the settings in words."""
        if self.inside is not None:
            return f"searches run inside PostgreSQL, by pgvector: {self.inside.value}"
        if self.recall is not None:
            return f"searches stop at a recall of {self.recall:g}"
        return f"searches scan every list that they plan{self._ahead()}"

    @property
    def guesses(self) -> bool:
        """Whether prompts are computed ahead of their searches."""
        return self.speculates and self.busy_max is not None

    def _ahead(self) -> str:
        if not self.speculates:
            return ""
        if self.busy_max is None:
            return " and have the LLM's cores while it is idle, so no prompt is computed ahead"
        ahead = ", and prompts are computed ahead with the hits so far"
        if self.busy_max < 1.0:
            ahead += f", while the LLM works at most {self.busy_max:.0%} of the time"
        return ahead


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A server before it starts.

    Args:
        config: what the user asked for; its texts that stand for something else are resolved here.
        machine: what this process may use.
        devices: what can embed.
        generator: the LLM's files; None = the server has no LLM.
        embedder: the embedder's files; None = it has no corpus, or another server embeds.
        encoder: what the embedder's directory says of the model; None as above.
        embedder_dtype: the dtype that questions and passages are embedded in.
        readers: the models that quote from passages and rank them; () = none does.
        reranking: whether passages are reranked that leave it to the server.
        roles: the role of each LLM lane.
        search: how far searches go.
        hot: the share of the index that a device holds as well; None = no device takes part.
        graph: where the index is searched, if it is a graph.
        pool: how searches share the vector lane; None = they run side by side.
        lost_shard: what becomes of a search while a shard's lane is lost.
        kv_encoding: how the chunks' KV is stored.
        placement: the cores, threads and bytes of each lane.
        embedding: the embedding lanes; () = the first retrieval lane embeds.
        remote: the models that other servers run; they take no cores and no memory here.
        cluster: the nodes of the LLM lanes; None = they run on this machine, in `placement`.
        windve: by which depths embedding lanes take queries; None = by predicted finish.
        splitter: what has split the memory by a memory profile; None = nothing has.
        prompts: the generator's own, by role.
        writing: how answers are written where a request doesn't say.
    """

    config: ServerConfig
    machine: MachineFacts
    devices: tuple[Device, ...]
    generator: ModelFiles | None
    embedder: ModelFiles | None
    encoder: EncoderDirectory | None
    embedder_dtype: str
    readers: tuple[Reader, ...]
    reranking: RerankingChoice
    roles: tuple[LaneRole, ...]
    search: SearchSettings
    hot: HotSettings | None
    pool: PoolSettings | None
    lost_shard: LostShard
    kv_encoding: KvEncoding
    placement: Placement
    embedding: tuple[EmbeddingLane, ...]
    splitter: MemorySplitter | None
    prompts: ModelPrompts
    writing: Writing
    remote: RemoteModels = NO_REMOTE_MODELS
    cluster: ClusterPlan | None = None
    windve: WindveDepths | None = None
    graph: GraphDevice = NO_GRAPH

    @property
    def llm_places(self) -> Mapping[str, LanePlace]:
        """Where each LLM lane stands, by its name; node "" = this machine."""
        if self.cluster is not None:
            return self.cluster.places
        return {
            name: LanePlace("", cpus if self.placement.is_pinned else (), max(1, len(cpus)))
            for name, cpus in self.placement.llm_lanes.items()
        }

    @property
    def kv_bytes(self) -> int:
        """KV pages of each LLM lane."""
        return self.placement.kv_bytes if self.cluster is None else self.cluster.kv_bytes

    @property
    def packs_weights(self) -> bool:
        """Whether LLM lanes that decode keep a packed copy of the weights."""
        where = self.placement if self.cluster is None else self.cluster
        return where.packs_weights

    @property
    def embedder_name(self) -> str:
        """By which a corpus records what embeds; empty = the server has no corpus."""
        if self.remote.embedder is not None:
            return self.remote.embedder.first.fingerprint
        return "" if self.embedder is None else self.embedder.fingerprint

    @property
    def embedders(self) -> tuple[EmbeddingLane, ...]:
        """What embeds: the embedding lanes, or the engine in the first retrieval lane."""
        if self.encoder is None:
            return ()
        shared = retrieval_embedder(self.placement, self.embedder_dtype)
        return self.embedding or (shared,)

    def device_lines(self) -> Iterator[str]:
        """Yield the devices that can embed, and why texts don't spill between them."""
        are_named = wanted_lanes(self.config.embedding_lanes) is not None
        return device_lines(self.devices, self.embedding, are_named=are_named)

    def lines(self) -> Iterator[str]:
        """Yield the models, the searches and the LLM's lanes, as `heddle doctor` prints them."""
        if self.generator is not None:
            roles = zip(lane_names(self.roles), self.roles, strict=True)
            lanes = ", ".join(f"{name} ({role.value})" for name, role in roles)
            yield f"generator {_files_line(self.generator)}, lanes {lanes}"
            yield from () if self.cluster is None else self.cluster.lines()
            yield from self._unplanned_device()
        yield from self.remote.lines()
        if self.embedder is not None:
            yield f"embedder {_files_line(self.embedder)}, computed in {self.embedder_dtype}"
        if self.embedder_name:
            yield self.search.line()
            yield from (reader.line() for reader in self.readers)
            if self.config.llm is not None:
                yield self.reranking.line()
            if self.graph.why:
                yield f"the graph is searched {self.graph.why}"
            if self.hot is not None:
                yield f"{self.hot.share:.0%} of the vectors also on {self.hot.device}"

    def placement_lines(self) -> tuple[str, ...]:
        """Return what each lane gets of this machine, and where the LLM is if it is elsewhere."""
        elsewhere = ""
        if self.cluster is not None:
            names = dict.fromkeys(place.node for place in self.cluster.places.values())
            elsewhere = f"on {'node' if len(names) == 1 else 'nodes'} {', '.join(names)}"
        elif self.remote.generator is not None:
            elsewhere = "on another server"
        return self.placement.lines(elsewhere)

    def _unplanned_device(self) -> Iterator[str]:
        """Say so where KV pages lie on a GPU whose memory is not in the plan."""
        device = _decoding_device(self.config, self.machine)
        if self.cluster is None and device is not None and self.placement.device is None:
            yield (
                f"KV pages lie on {device}: the lane takes half of what it finds free there, if "
                f"that is more than planned, as {TOOL} doesn't tell the memory of this GPU"
            )

    def record(self) -> dict[str, object]:
        """Return what `lines` yields as plain values, for JSON."""
        return {
            "generator": None if self.generator is None else _files_record(self.generator),
            "embedder": None if self.embedder is None else _files_record(self.embedder),
            "embedder_dtype": self.embedder_dtype,
            "readers": {reader.name: reader.facts.name for reader in self.readers},
            "reranks": self.reranking.is_on,
            "remote": list(self.remote.lines()),
            "llm_lanes": [role.value for role in self.roles] if self.generator else [],
            "nodes": {} if self.cluster is None else self.cluster.record(),
            "search_inside": None if self.search.inside is None else self.search.inside.value,
            "recall": self.search.recall,
            "speculates": self.search.guesses,
            "hot_share": 0.0 if self.hot is None else self.hot.share,
        }


def plan_server(
    config: ServerConfig,
    store: CorpusStore | None,
    machine: MachineFacts | None = None,
    nodes: Sequence[NodeFacts] = (),
    device_memory: Callable[[], DeviceMemory | None] = read_device_memory,
) -> ServerPlan:
    """Find out what a configuration stands for here, and what each lane gets.

    Each fact is looked up once: the machine, its devices, either model's directory, which may be
    downloaded, and every setting that is a text.

    Args:
        config: the server's.
        store: its corpus; None = it has none, or an empty one.
        machine: what this process may use; None = it is read.
        nodes: where the LLM lanes are to stand; () = on this machine.
        device_memory: looks up the memory of the LLM's GPU; None = its size isn't known.

    Raises:
        ConfigError: it doesn't fit into this machine or these nodes, or the embedder can't be run.
        InputError: a model isn't there.
    """
    inside = _index_inside(config, store)
    machine = read_machine() if machine is None else machine
    devices = detect_devices(machine)
    check_remote_models(config)
    own_index = None if config.index is None else config.embedder
    remote = open_remote_models(config.llm, own_index, config.reranker)
    is_own = config.index is not None and remote.embedder is None
    encoder = open_embedder(config.embedder) if is_own else None
    embedder = None if encoder is None else embedder_files(encoder)
    generator = None
    if config.llm is not None and remote.generator is None:
        generator = generator_files(model_directory(config.llm), config.weights)
    readers = plan_readers(config)
    roles = roles_of(config.llm_lanes, config.replicas)
    # Engines in the server's own process have no embedding lanes beside them.
    embeds_on = devices if encoder is not None and config.engine_host == "process" else ()
    wanted = _wanted_lanes(config, embeds_on, machine)
    accelerators = _accelerators(embeds_on, wanted)
    numa_nodes = _numa_nodes(devices, machine) if config.engine_host == "process" else ()
    decodes_on = None if generator is None or nodes else _decoding_device(config, machine)
    packed_bytes = generator.loaded_bytes_max if generator and _packs(config, machine) else 0
    cluster = cluster_of(config, generator, roles, nodes)
    here = generator if cluster is None else None  # the LLM that this machine has to hold
    demand = Demand(
        0 if here is None else here.loaded_bytes_max,
        0 if embedder is None else embedder.loaded_bytes_max,
        _index_bytes(store) if inside is None else 0,
        readers_bytes=_readers_bytes(readers),
        packed_bytes=packed_bytes if here is not None else 0,
        llm_on_cpu=decodes_on is None,
        accelerators=accelerators,
        spills=wanted is None and (accelerators > 0 or (bool(embeds_on) and len(numa_nodes) > 1)),
        named_cores=tuple(lane.cores for lane in wanted or () if lane.is_cpu),
        shards=config.shards,
        replicas=replicas_of(config.replicas).retrieval,
        llm_roles=roles,
    )
    splitter = memory_splitter(
        config.memory_profile,
        generator,
        roles,
        config.expected_rate,
        config.stage_mix,
        machine.cpu_model,
    )
    split = None if splitter is None else splitter.split
    hot, device = _hot_clusters(config, machine), None
    graph_bytes = _graph_bytes(store)
    is_needed = decodes_on is not None or (graph_bytes and config.graph_device != GRAPH_HOST)
    memory = device_memory() if machine.gpus and is_needed else None
    graph = choose_graph_device(config, machine, graph_bytes, memory)
    if here is not None and decodes_on is not None and memory is not None:
        embeds_there = embedder is not None and _embeds_on(decodes_on, embeds_on, wanted)
        on_device = DeviceDemand(
            len(roles),
            here.loaded_bytes_max if config.dtype == "float32" else here.weight_bytes,
            embedder.loaded_bytes_max if embedder is not None and embeds_there else 0,
            len(roles) + embeds_there + (demand.retrieval_lanes if hot or graph.is_gpu else 0),
            0 if hot is None else demand.replicas * _device_bytes(store),
            None if hot is None or config.hot_clusters == AUTO else hot.share,
            2 * demand.replicas * graph.bytes_there,
        )
        device = plan_device(decodes_on, memory, on_device, config.kv_cache_bytes, split)
    placement = plan_placement(
        machine,
        demand,
        config.kv_cache_bytes,
        split,
        numa_nodes,
        device,
        lends_to_llm=_can_borrow(config, here, machine) and bool(config.index or readers),
        lends_to_scans=_lends(config) and _scans_lists(config, store, inside),
    )
    dtype = REMOTE_DTYPE
    if remote.embedder is None:
        dtype = embedder_dtype(config.dtype, None if store is None else store.embedder, machine)
    lanes = placement.llm_lanes.values() if cluster is None else ()
    llm_threads = max(map(len, lanes)) if cluster is None else cluster.threads_max
    embedding: tuple[EmbeddingLane, ...] = ()
    if embeds_on:
        embedding = plan_embedding_lanes(
            embeds_on,
            placement,
            dtype,
            wanted=wanted,
            decodes_on=decodes_on,
            memory_problem=binding_problem() if len(numa_nodes) > 1 else "",
        )
    return ServerPlan(
        config=config,
        machine=machine,
        devices=devices,
        generator=generator,
        embedder=embedder,
        encoder=encoder,
        embedder_dtype=dtype,
        readers=readers,
        reranking=choose_reranking(
            config,
            generator,
            readers,
            placement.retrieval_threads,
            llm_threads,
            llm_on_cpu=decodes_on is None,
        ),
        roles=roles,
        search=SearchSettings(
            config.recall,
            _speculates(config, generator is not None),
            busy_max(config, placement, is_flat=_is_flat(store)),
            inside,
        ),
        hot=_hot_on(hot, device),
        graph=graph,
        pool=_pool(config, roles),
        lost_shard=config.lost_shard,
        kv_encoding=KvEncoding(config.kv_reuse_encoding),
        placement=placement,
        embedding=embedding,
        splitter=splitter,
        prompts={} if generator is None else prompts_of(generator.directory),
        writing=server_writing(config),
        remote=remote,
        cluster=cluster,
        windve=windve_depths(
            config.embedding_admission,
            config.embedding_slo_s,
            config.embedding_depths,
            None if encoder is None else MeasuredOn(encoder.name, machine.cpu_model),
        ),
    )


def busy_max(config: ServerConfig, placement: Placement, *, is_flat: bool) -> float | None:
    """Return the share of time that an LLM lane may work while prompts are computed ahead. (ADR 37)

    None = none is computed ahead by `auto`: where scans have the LLM's cores while it is idle, a
    guess would take them from the search whose hits it has. Only scans of a flat index, one with
    lists of whole vectors, are shared by cores.
    """
    if config.speculate == "always":
        return 1.0
    if placement.lends_to_scans and is_flat:
        return None
    return 1.0 if placement.has_spare_core else SHARED_BUSY_MAX


def embedder_dtype(wanted: str, stored: EmbedderStamp | None, machine: MachineFacts) -> str:
    """Return the dtype to embed with: as asked, else as the corpus was embedded, else the fastest.

    Passages and questions have one dtype: vectors of two are close, but not equal.
    (docs/design/architecture.md#exactness)
    """
    if wanted != "auto":
        return wanted
    if stored is not None:
        return stored.dtype
    return auto_dtype(has_fast_bfloat16=machine.has_fast_bfloat16 or bool(machine.gpus))


def _wanted_lanes(
    config: ServerConfig, embeds_on: Sequence[Device], machine: MachineFacts
) -> tuple[WantedLane, ...] | None:
    """Return the lanes that the user has named, None = the plan decides.

    Raises:
        ConfigError: nothing embeds here in lanes, or the machine hasn't what they name.
    """
    wanted = wanted_lanes(config.embedding_lanes)
    if wanted is None:
        return None
    if not embeds_on:
        raise ConfigError(
            "embedding_lanes names lanes, and nothing embeds in lanes here: it needs an index, "
            "an embedder of Heddle's own and engine_host process; leave it out"
        )
    check_named_lanes(wanted, embeds_on, machine)
    return wanted


def _accelerators(devices: Sequence[Device], wanted: Sequence[WantedLane] | None) -> int:
    """Return how many accelerators embed."""
    if wanted is not None:
        return sum(not lane.is_cpu for lane in wanted)
    return sum(device.kind is not DeviceKind.CPU for device in devices)


def _numa_nodes(devices: Sequence[Device], machine: MachineFacts) -> tuple[Cores, ...]:
    """Return the cores of each NUMA node; () where lanes aren't pinned to cores of one.

    That is so under a quota, and where the system doesn't say of every core which node it is of.
    """
    nodes = tuple(device.cpus for device in devices if device.kind is DeviceKind.CPU)
    are_whole = machine.cores == sum(map(len, nodes)) == len(machine.cpus)
    return nodes if are_whole else ()


def _decoding_device(config: ServerConfig, machine: MachineFacts) -> str | None:
    """Return the accelerator that the LLM runs on, as torch names it; None = on the CPU."""
    return "cuda:0" if config.device != "cpu" and machine.gpus else None


def _packs(config: ServerConfig, machine: MachineFacts) -> bool:
    """Whether the LLM's weights gain by a packed copy: in float32 on the CPU. (ADR 8)"""
    if config.weights != WHOLE:
        return False
    on_cpu = config.device == "cpu" or (config.device == "auto" and not machine.gpus)
    return on_cpu and _dtype_on_cpu(config, machine) == "float32"


def _lends(config: ServerConfig) -> bool:
    """Whether lanes may lend cores to each other. (ADR 60)"""
    return config.lend_cores and config.engine_host == "process"


def _scans_lists(
    config: ServerConfig, store: CorpusStore | None, inside: VectorIndexKind | None
) -> bool:
    """Whether lanes scan inverted lists: neither a graph nor the corpus's database is searched."""
    has_graph = store is not None and mode_of(store.place.work) is SearchMode.GRAPH
    return config.index is not None and inside is None and not has_graph


def _is_flat(store: CorpusStore | None) -> bool:
    """Whether the lists of a corpus's index hold whole vectors."""
    if store is None:
        return True  # as an empty corpus
    kind = kind_of(store.place.work) or kind_for(store.vector_count, SearchMode.AUTO)
    return kind is IndexKind.FLAT


def _can_borrow(config: ServerConfig, generator: ModelFiles | None, machine: MachineFacts) -> bool:
    """Whether the LLM may have idle cores of another lane: fused layers give them back. (ADR 60)"""
    if generator is None or not _lends(config):
        return False
    model_type = str(read_json(generator.directory / "config.json").get("model_type"))
    return fuses_on_cpu(
        model_type, _dtype_on_cpu(config, machine), has_fast_bfloat16=machine.has_fast_bfloat16
    )


def _dtype_on_cpu(config: ServerConfig, machine: MachineFacts) -> str:
    if config.dtype != "auto":
        return config.dtype
    return auto_dtype(has_fast_bfloat16=machine.has_fast_bfloat16)


def _readers_bytes(readers: tuple[Reader, ...]) -> int:
    """Return the memory of reading models at the worst: float32, and embeddings of their own."""
    own = sum(reader.weight_bytes for reader in readers)
    return 2 * own + (EMBEDDINGS_BYTES if readers else 0)


def _index_inside(config: ServerConfig, store: CorpusStore | None) -> VectorIndexKind | None:
    """Return the index inside the database, where that searches.

    Raises:
        ConfigError: it isn't there.
    """
    if config.search_in == "lanes" or store is None or store.vector_index is None:
        return None
    return store.vector_index.ready_kind()


def _index_bytes(store: CorpusStore | None) -> int:
    if store is None or not store.dims:
        return 0
    return index_bytes(mode_of(store.place.work), store.vector_count, store.dims)


def _device_bytes(store: CorpusStore | None) -> int:
    """Return what all vectors of the index take on a device."""
    if store is None or not store.dims:
        return 0
    return device_bytes(mode_of(store.place.work), store.vector_count, store.dims)


def _graph_bytes(store: CorpusStore | None) -> int:
    """Return what the graph of the index takes on a device; 0 = it is none."""
    if store is None or not store.dims or mode_of(store.place.work) is not SearchMode.GRAPH:
        return 0
    return index_bytes(SearchMode.GRAPH, store.vector_count, store.dims)


def _embeds_on(device: str, devices: Sequence[Device], wanted: Sequence[WantedLane] | None) -> bool:
    """Whether an embedding lane uses this device, as torch names it."""
    if wanted is not None:
        return any(lane.device == device for lane in wanted)
    return any(one.torch_name == device for one in devices)


def _speculates(config: ServerConfig, has_own_llm: bool) -> bool:
    """Whether prompts may be computed ahead of their searches."""
    can = has_own_llm and config.index is not None and config.shards == 1
    can = can and config.search_in == "lanes"
    return config.speculate == "always" or (config.speculate == "auto" and can)


def _hot_clusters(config: ServerConfig, machine: MachineFacts) -> HotSettings | None:
    place = config.place
    if config.hot_clusters == AUTO and place is not None and graph_path(place.work).exists():
        return None  # a graph has no clusters, and the user asked for none
    has_gpu = bool(machine.gpus) and config.device != "cpu"
    return hot_settings(config.hot_clusters, has_gpu=has_gpu)


def _hot_on(hot: HotSettings | None, device: DevicePlan | None) -> HotSettings | None:
    """Return hot clusters with the share of the vectors that the device has room for."""
    if hot is None or device is None:
        return hot
    return replace(hot, share=device.hot_share) if device.hot_share else None


def _pool(config: ServerConfig, roles: tuple[LaneRole, ...]) -> PoolSettings | None:
    if config.search_pool is None:
        return None
    slo_s = PREFILL_SLO_S if config.search_pool_slo_s is None else config.search_pool_slo_s
    prefill_lanes = roles.count(LaneRole.PREFILL)
    return PoolSettings(
        config.search_pool,
        prefill_slo_s=slo_s,
        prefill_lanes=prefill_lanes,
        flush_s=config.search_pool_flush_s,
    )


def _files_line(files: ModelFiles) -> str:
    kept = "" if files.weights == WHOLE else f", kept as {files.weights}"
    return f"{files.fingerprint}, {readable_size(files.weight_bytes)} of weights{kept}"


def _files_record(files: ModelFiles) -> dict[str, object]:
    return {
        "directory": str(files.directory),
        "weight_bytes": files.weight_bytes,
        "fingerprint": files.fingerprint,
    }
