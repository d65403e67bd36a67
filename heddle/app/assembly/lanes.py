"""From a server's plan to its lanes: which engines, with which settings, where."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from heddle.app.assembly.embedding_lanes import POOL, embedding_engine
from heddle.app.assembly.server_plan import ServerPlan
from heddle.app.models.named_model import by_name
from heddle.app.priming.chunk_kv_disk import chunk_kv_directory, disk_bytes_max
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Optimizations
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.engines.llm.build import LlmSettings
from heddle.engines.llm.lanes.disaggregated_port import LLM_KINDS
from heddle.engines.llm.lanes.lane_role import LaneRole
from heddle.engines.vector.build import VectorSettings
from heddle.engines.vector.shards.part import WHOLE, Part
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import memory_left
from heddle.runtime.supervision import LaneLimits

VECTOR: Final = "vector"
LLM: Final = "llm"
VECTOR_ROWS: Final = 256
# Of a GPU's free memory, for the KV of all LLM lanes where the plan doesn't know how much there is:
# steps, embedding and hot clusters take more.
DEVICE_KV_SHARE: Final = 0.5
AGAIN_S: Final = 60.0  # until a lane that was given up is started once more
SLOW_DISK_BYTES_PER_S: Final = 50e6  # a busy hard disk, or a network's


def lane_specs(plan: ServerPlan) -> tuple[LaneSpec, ...]:
    """Return the lanes of a server: retrieval where there is an index, LLM where a generator.

    The embedding engine shares the first retrieval lane where no lane is for embedding alone.
    Reading models share the lane of the first embedding engine.

    Raises:
        ConfigError: a lane can't have these engines or cores.
    """
    retrieval = _retrieval_lanes(plan)
    lender = retrieval[0].name if plan.placement.lends_to_llm else ""
    llm = _llm_lanes(plan, lender)
    if plan.placement.lends_to_scans and retrieval:
        retrieval[0] = replace(retrieval[0], borrows=llm[0].name, only_scans_borrow=True)
    return (*retrieval, *llm)


def lane_limits(plan: ServerPlan) -> LaneLimits:
    """Give lanes the more time to start, the more they load: models, and the index."""
    weights = 0 if plan.generator is None else plan.generator.weight_bytes
    kv = plan.placement.kv_bytes * len(plan.placement.llm_roles)
    loaded = max(weights, plan.placement.total_bytes - kv)  # a GPU's weights aren't in the total
    limits = LaneLimits(again_s=AGAIN_S)
    return replace(limits, start_s_max=limits.start_s_max + loaded // SLOW_DISK_BYTES_PER_S)


def _retrieval_lanes(plan: ServerPlan) -> list[LaneSpec]:
    if plan.config.index is None:
        return _reading_lane(plan)
    lanes, shards = [], plan.config.shards
    threads, count = plan.placement.retrieval_threads, plan.placement.retrieval_lanes
    cpus = plan.placement.retrieval_cpus if plan.placement.is_pinned else ()
    model = "" if plan.encoder is None else str(plan.encoder.path)
    long_texts = plan.config.long_texts
    for number in range(count):
        part = Part(number, shards) if shards > 1 else WHOLE
        engines = [_vector(plan, threads, part)]
        if not plan.embedding and (number == 0 or shards == 1):
            readers = (reader.engine(threads=threads, beside=None) for reader in plan.readers)
            engines = [*_embedding(plan, threads), *readers, *engines]
        if count > shards:
            engines = [replace(engine, name=f"{engine.name}-{number}") for engine in engines]
        name = "retrieval" if count == 1 else f"retrieval-{number}"
        lanes.append(LaneSpec(name, tuple(engines), cpus, threads))
    for number, lane in enumerate(plan.embedding):
        spec = lane.spec(model, long_texts, plan.config.call_order)
        if number == 0:  # one copy of the weights that embedding and reading have in common
            readers = (reader.engine(threads=lane.threads, beside=lane) for reader in plan.readers)
            spec = replace(spec, engines=(*spec.engines, *readers))
        lanes.append(spec)
    return lanes


def _embedding(plan: ServerPlan, threads: int) -> Iterator[EngineSpec]:
    """Yield the engine that embeds in a retrieval lane; none where another server embeds."""
    if plan.encoder is not None:
        settings = EmbeddingSettings(
            str(plan.encoder.path),
            plan.embedder_dtype,
            threads=threads,
            long_texts=plan.config.long_texts,
            order=plan.config.call_order,
        )
        yield embedding_engine(POOL, settings)


def _reading_lane(plan: ServerPlan) -> list[LaneSpec]:
    """Return the lane of a server that only reads passages it is given; [] = it reads none."""
    threads = plan.placement.retrieval_threads
    cpus = plan.placement.retrieval_cpus if plan.placement.is_pinned else ()
    engines = tuple(reader.engine(threads=threads, beside=None) for reader in plan.readers)
    return [LaneSpec("reading", engines, cpus, threads)] if engines else []


def _llm_lanes(plan: ServerPlan, lender: str) -> list[LaneSpec]:
    """Return the LLM's lanes; they borrow the cores of `lender`, "" = of none."""
    if plan.generator is None:
        return []
    lanes, generator = [], plan.generator
    for (name, place), role in zip(plan.llm_places.items(), plan.roles, strict=True):
        engine = _llm(plan, generator.directory, name, role, place.threads)
        if not place.node:
            lanes.append(LaneSpec(name, (engine,), place.cpus, place.threads, borrows=lender))
            continue
        # A directory is looked for at the same path; its cores are the node's, which pins it.
        given = Path(str(plan.config.llm)).expanduser()
        known_as = str(generator.directory) if given.is_dir() else str(plan.config.llm)
        engine = by_name(engine, known_as, generator.fingerprint)
        lanes.append(LaneSpec(name, (engine,), threads=place.threads))
    return lanes


def _vector(plan: ServerPlan, threads: int, part: Part) -> EngineSpec:
    config = plan.config
    assert config.place is not None, "a vector engine needs a corpus"
    settings = VectorSettings(
        config.place.work,
        config.nprobe,
        threads=threads,
        pool=plan.pool,
        hot=plan.hot,
        part=part,
        topm=config.topm,
        target_recall=plan.search.recall,
        speculates=plan.search.speculates,
        must_speculate=config.speculate == "always",
        memory_left=memory_left,
        order=config.call_order,
        corpus=config.place,
        stale_max_s=config.stale_max_s,
        graph_device=plan.graph.device,
        in_database=plan.search.inside is not None,
    )
    return EngineSpec(
        _numbered(VECTOR, part),
        "heddle.engines.vector.build:build_engine",
        settings,
        VECTOR_ROWS,
        frozenset({PrimitiveKind.SEARCHING, PrimitiveKind.INGESTION}),
    )


def _llm(plan: ServerPlan, model: Path, name: str, role: LaneRole, threads: int) -> EngineSpec:
    config = plan.config
    place = config.place if plan.cluster is None else None
    keeps_chunks = config.optimizations_max is Optimizations.APPROX and role.prefills
    settings = LlmSettings(
        model,
        dtype=config.dtype,
        device=config.device,
        attention=config.attention,
        weights=config.weights,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        background_step_s=config.background_step_s,
        order=config.call_order,
        kv_bytes=plan.kv_bytes,
        context_tokens_max=config.context_tokens_max,
        chunk_kv_bytes=config.kv_reuse_memory_bytes if keeps_chunks else 0,
        chunk_kv_encoding=plan.kv_encoding,
        corpus=place,
        chunk_kv_dir=None if place is None else chunk_kv_directory(place.work),
        chunk_kv_disk_bytes=disk_bytes_max(config) if keeps_chunks else 0,
        # By default the budget is what lay there a moment ago: what came since is another server's.
        chunk_kv_removes_excess=config.kv_reuse_disk_bytes is not None,
        packs_weights=plan.packs_weights and role.decodes,
        threads=threads,
        device_kv_share=_device_kv_share(plan),
    )
    # A prefill and its decode take a credit each; twice the slots keep the lane's own queue fed.
    return EngineSpec(
        name,
        "heddle.engines.llm.build:build_engine",
        settings,
        4 * config.max_num_seqs,
        LLM_KINDS,
    )


def _device_kv_share(plan: ServerPlan) -> float:
    """Return the share of a GPU's free memory that a lane takes; 0 = what is planned for it."""
    if plan.config.kv_cache_bytes or plan.placement.device is not None:
        return 0.0
    return DEVICE_KV_SHARE / len(plan.roles)


def _numbered(name: str, part: Part) -> str:
    return name if part == WHOLE else f"{name}-{part.number}"
