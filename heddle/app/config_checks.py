"""Settings of a server that can't be used together."""

from pathlib import Path
from typing import Protocol

from heddle.app.replicas import replicas_of, roles_of
from heddle.core.dtypes import INT8
from heddle.core.errors import ConfigError
from heddle.core.tasks import Optimizations
from heddle.corpus.place import CorpusPlace
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_roles
from heddle.engines.vector.pool.policies import PoolPolicy


class Checked(Protocol):
    """The settings of a ServerConfig that depend on each other."""

    # fmt: off
    @property
    def generator(self) -> str | Path | None: ...
    @property
    def index(self) -> object: ...
    @property
    def speculate(self) -> str: ...
    @property
    def weights(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def search_in(self) -> str: ...
    @property
    def recall(self) -> float | None: ...
    @property
    def hot_clusters(self) -> str: ...
    @property
    def shards(self) -> int: ...
    @property
    def search_pool(self) -> PoolPolicy | None: ...
    @property
    def search_pool_slo_s(self) -> float | None: ...
    @property
    def search_pool_flush_s(self) -> float: ...
    @property
    def embedding_admission(self) -> str: ...
    @property
    def embedding_slo_s(self) -> float | None: ...
    @property
    def embedding_depths(self) -> str | Path | None: ...
    @property
    def llm_lanes(self) -> str: ...
    @property
    def replicas(self) -> str: ...
    @property
    def engine_host(self) -> str: ...
    @property
    def agents(self) -> str | None: ...
    @property
    def ray(self) -> str | None: ...
    @property
    def cluster_secret_file(self) -> str | Path | None: ...
    @property
    def kv_reuse_memory_bytes(self) -> int: ...
    @property
    def kv_reuse_disk_bytes(self) -> int | None: ...
    @property
    def memory_profile(self) -> str | Path | None: ...
    @property
    def expected_rate(self) -> float | None: ...
    @property
    def stage_mix(self) -> str | None: ...
    @property
    def optimizations_max(self) -> Optimizations: ...
    @property
    def approximation(self) -> str: ...
    # fmt: on


def check_plain_names(names: frozenset[str]) -> None:
    """Refuse what can't be the name of a pass; which passes there are is known at start.

    Raises:
        ConfigError: one is no plain name.
    """
    for name in sorted(names):
        if not name.isidentifier():
            raise ConfigError(f"disabled_passes must be names of passes, got {name!r:.40}")


def check_together(config: Checked) -> None:
    """Refuse settings that can't be used together.

    Raises:
        ConfigError: the message names them, and the fix.
    """
    if config.generator is None and config.index is None:
        raise ConfigError("a server needs a generator, an index, or both; both are None")
    _check_search(config)
    _check_search_in(config)
    _check_embedding(config)
    _check_optimizations(config)
    _check_replicas(config)
    _check_nodes(config)  # first: on nodes no lane may keep chunks' KV at all
    _check_llm_lanes(config)
    _check_weights(config)
    _check_memory(config)


def _check_nodes(config: Checked) -> None:
    """Refuse what can't be had, or isn't made yet, for LLM lanes on other nodes."""
    if config.agents is None and config.ray is None:
        return
    field = "agents" if config.ray is None else "ray"
    if config.agents is not None and config.ray is not None:
        raise ConfigError("agents and ray both name nodes: leave one of them out")
    if config.agents is not None and config.cluster_secret_file is None:
        raise ConfigError(
            "agents run lanes for everybody who has the cluster's secret: name it as "
            "cluster_secret_file; `heddle agent --new-secret FILE` makes one"
        )
    if config.engine_host != "process":
        raise ConfigError(f"{field} runs lanes, and engine_host is inline: set it to process")
    if config.memory_profile is not None:
        raise ConfigError(
            f"memory_profile splits this machine's memory, and {field} puts the LLM on others: "
            "leave one of them out"
        )
    if config.optimizations_max is Optimizations.APPROX and config.kv_reuse_memory_bytes:
        raise ConfigError(
            f"optimizations is 'approx', which reuses chunks' KV, and {field} puts the LLM on "
            "nodes, where no lane follows the corpus: set optimizations to exact, or "
            "kv_reuse_memory_bytes to 0"
        )


def _check_weights(config: Checked) -> None:
    if config.weights == INT8 and config.device == "cuda":
        raise ConfigError(
            "weights is 'int8', which is for CPUs, and device is 'cuda': set device to cpu, or "
            "weights to full"
        )


def _check_memory(config: Checked) -> None:
    read_for = {"expected_rate": config.expected_rate, "stage_mix": config.stage_mix}
    for name, value in read_for.items():
        if config.memory_profile is None and value is not None:
            raise ConfigError(
                f"{name} says how a memory profile is read, and there is none: set memory_profile "
                f"to what `heddle profile --memory` wrote, or leave {name} out"
            )


def _check_replicas(config: Checked) -> None:
    replicas = replicas_of(config.replicas)
    if replicas.llm > 1 and lane_roles(config.llm_lanes) != (LaneRole.BOTH,):
        raise ConfigError(
            f"replicas has llm={replicas.llm}, and llm_lanes is {config.llm_lanes!r}: llm_lanes "
            "names every lane; leave one of them out"
        )
    if replicas.retrieval > 1 and config.shards > 1:
        raise ConfigError(
            f"replicas has retrieval={replicas.retrieval}, and shards is {config.shards}: an index "
            "is either copied or divided; leave one of them out"
        )


def _check_search(config: Checked) -> None:
    if config.speculate == "always" and config.shards > 1:
        raise ConfigError(
            "speculate is for an index in one piece: a shard doesn't know what the others have "
            "found; set shards to 1, or speculate to auto or never"
        )
    of_pool = {
        "search_pool_slo_s": config.search_pool_slo_s is not None,
        "search_pool_flush_s": config.search_pool_flush_s > 0,
    }
    for name, is_set in of_pool.items():
        if is_set and config.search_pool is None:
            raise ConfigError(
                f"{name} is for searches in a pool, and there is none: set search_pool "
                f"to one of {', '.join(policy.value for policy in PoolPolicy)}, or leave it out"
            )


def _check_search_in(config: Checked) -> None:
    """Refuse what only Heddle's own index can do where the corpus's database searches."""
    if config.search_in != "postgres":
        return
    place = config.index
    if not isinstance(place, CorpusPlace) or not place.is_remote:
        raise ConfigError(
            f"search_in is postgres, and the corpus is {place or 'missing'}: name one in "
            "PostgreSQL (postgresql://USER@HOST/DATABASE), or set search_in to lanes"
        )
    asked = {
        "shards": config.shards > 1,
        "search_pool": config.search_pool is not None,
        "recall": config.recall is not None,
        "hot_clusters": config.hot_clusters not in ("auto", "off"),
        "speculate": config.speculate == "always",
    }
    for name in (name for name, is_asked in asked.items() if is_asked):
        raise ConfigError(
            f"{name} is for searches in lanes, and search_in is postgres: leave one of them out"
        )


def _check_embedding(config: Checked) -> None:
    for_windve = {
        "embedding_slo_s": config.embedding_slo_s,
        "embedding_depths": config.embedding_depths,
    }
    for name, value in for_windve.items():
        if value is not None and config.embedding_admission != "windve":
            raise ConfigError(
                f"{name} is for the depths of windve, and embedding_admission is "
                f"{config.embedding_admission}: set that to windve, or leave {name} out"
            )


def _check_optimizations(config: Checked) -> None:
    if config.approximation and config.optimizations_max is not Optimizations.APPROX:
        raise ConfigError(
            f"{config.approximation} gives approximate answers, and optimizations is "
            f"{config.optimizations_max.value!r}: set optimizations to approx, or leave it out"
        )


def _check_llm_lanes(config: Checked) -> None:
    roles = roles_of(config.llm_lanes, config.replicas)
    prefill_lanes = sum(role.prefills for role in roles)
    keeps_chunks = config.optimizations_max is Optimizations.APPROX and config.kv_reuse_memory_bytes
    if prefill_lanes > 1 and keeps_chunks and config.kv_reuse_disk_bytes != 0:
        raise ConfigError(
            f"{prefill_lanes} LLM lanes that prefill (llm_lanes, replicas) can't share "
            "one folder of chunk KV: set kv_reuse_disk_bytes to 0, or name one of them"
        )
