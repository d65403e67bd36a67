"""From a server's settings to what its LLM lanes need of nodes."""

from collections.abc import Sequence

from heddle.app.assembly.cluster_plan import ClusterDemand, ClusterPlan, NodeFacts, plan_cluster
from heddle.app.models.model_files import ModelFiles
from heddle.app.server_config import ServerConfig
from heddle.core.dtypes import auto_dtype
from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole


def cluster_of(
    config: ServerConfig,
    generator: ModelFiles | None,
    roles: tuple[LaneRole, ...],
    nodes: Sequence[NodeFacts],
) -> ClusterPlan | None:
    """Return where the LLM lanes stand on nodes; None = there are none, but this machine.

    Raises:
        ConfigError: they find no room, would compute in different ways, or there is no LLM.
    """
    if not nodes:
        return None
    if generator is None:
        raise ConfigError(
            "agents and ray are for LLM lanes, and this server has no LLM of its own: name one as "
            "generator (--model), or leave them out"
        )
    return plan_cluster(nodes, cluster_demand(config, generator, roles, nodes))


def cluster_demand(
    config: ServerConfig,
    generator: ModelFiles,
    roles: tuple[LaneRole, ...],
    nodes: Sequence[NodeFacts],
) -> ClusterDemand:
    """Return what the LLM lanes need of nodes.

    Raises:
        ConfigError: the nodes would compute in different ways, and so give different answers.
    """
    needs_gpu = _needs_gpu(config, nodes)
    dtype: str = config.dtype
    if dtype == "auto":
        dtype = _one_dtype(nodes, needs_gpu)
    return ClusterDemand(
        roles,
        generator.loaded_bytes_max,
        generator.loaded_bytes_max if dtype == "float32" and not needs_gpu else 0,
        config.kv_cache_bytes,
        needs_gpu,
    )


def _needs_gpu(config: ServerConfig, nodes: Sequence[NodeFacts]) -> bool:
    """Whether the lanes run on GPUs: on all nodes, or on none."""
    if config.device != "auto":
        return config.device == "cuda"
    having = [node.name for node in nodes if node.machine.gpus]
    lacking = [node.name for node in nodes if not node.machine.gpus]
    if having and lacking:
        raise ConfigError(
            f"device is auto: nodes {', '.join(having)} have a GPU and {', '.join(lacking)} none, "
            "and equal lanes must compute alike: set device to cpu or cuda"
        )
    return bool(having)


def _one_dtype(nodes: Sequence[NodeFacts], needs_gpu: bool) -> str:
    """Return what dtype auto is on every node. Those fast in bfloat16 would time it. (ADR 46)"""
    timing = [node.name for node in nodes if node.machine.has_fast_bfloat16]
    if needs_gpu or not timing:
        return auto_dtype(has_fast_bfloat16=needs_gpu)
    if len(nodes) > 1:
        raise ConfigError(
            f"dtype is auto: nodes {', '.join(timing)} multiply bfloat16 in hardware and "
            "would each choose between it and float32 by themselves, and equal lanes must compute "
            "alike: set dtype"
        )
    return auto_dtype(has_fast_bfloat16=True)
