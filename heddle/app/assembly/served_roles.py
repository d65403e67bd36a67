"""The roles that a server's lanes have: each is served while a lane of it is ready."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from heddle.app.assembly.server_plan import ServerPlan
from heddle.core.primitives import PrimitiveKind
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_names
from heddle.engines.vector.shards.port import LostShard
from heddle.hosts.lane_spec import EngineSpec, LaneSpec

SEARCH: Final = "search"
LLM: Final = "llm"
ROLE_OF: Final[Mapping[PrimitiveKind, str]] = {
    PrimitiveKind.EMBEDDING: "embedding",
    PrimitiveKind.SEARCHING: SEARCH,
    PrimitiveKind.RERANKING: "reading",
    PrimitiveKind.EXTRACTING: "reading",
    PrimitiveKind.DECODING: LLM,
}
"""The role of an engine that carries out a kind."""


def served_roles(plan: ServerPlan, specs: Sequence[LaneSpec]) -> Mapping[str, tuple[str, ...]]:
    """Return the lanes of each role, by its name.

    Where LLM lanes differ, `llm-prefill` and `llm-decode` are two roles. Where a search needs every
    shard, so is the search of each: `search-0`, `search-1`.
    """
    lanes: dict[str, list[str]] = {}
    for spec in specs:
        roles = (role for engine in spec.engines for role in _roles_of(engine, plan))
        for role in dict.fromkeys(roles):
            lanes.setdefault(role, []).append(spec.name)
    return {role: tuple(names) for role, names in lanes.items()}


def _roles_of(engine: EngineSpec, plan: ServerPlan) -> Iterator[str]:
    needs_each = plan.config.shards > 1 and plan.lost_shard is LostShard.FAIL
    for kind, role in ROLE_OF.items():
        if kind not in engine.kinds:
            continue
        if role == LLM:
            yield from _llm_roles(engine.name, plan.roles)
        elif role == SEARCH and needs_each:
            yield f"{SEARCH}-{engine.name.rpartition('-')[2]}"
        else:
            yield role


def _llm_roles(name: str, roles: Sequence[LaneRole]) -> Iterator[str]:
    """Yield what an LLM lane is there for; the engine has the lane's name."""
    if set(roles) == {LaneRole.BOTH}:
        yield LLM
        return
    role = dict(zip(lane_names(roles), roles, strict=True))[name]
    if role.prefills:
        yield f"{LLM}-{LaneRole.PREFILL.value}"
    if role.decodes:
        yield f"{LLM}-{LaneRole.DECODE.value}"
