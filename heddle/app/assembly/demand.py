"""What a server needs of its machine, before it is placed."""

from dataclasses import dataclass
from typing import Final

from heddle.engines.llm.lanes.lane_role import LaneRole

Cores = tuple[int, ...]
KV_BYTES_MIN: Final = 16 << 20  # KV pages without which an LLM lane isn't planned


@dataclass(frozen=True, slots=True)
class Demand:
    """What has to fit: weights as they lie in memory, the index, and lanes. Sizes in bytes.

    `packed_bytes` is a second copy of the LLM's weights, for decoding, which may be left out.
    `readers_bytes` are the reading models'. Where there is an LLM, each of `llm_roles` is a lane
    with its own weights. `accelerators` have an embedding lane each. With `spills` the plan looks
    for cores of CPU lanes that embed; `named_cores` are those of lanes that the user names instead.
    The index has `shards` lanes with a part each, or `replicas` lanes with a copy each, which have
    copies of the embedder and the readers, too.
    """

    llm_bytes: int
    embedder_bytes: int
    index_bytes: int
    packed_bytes: int = 0
    llm_on_cpu: bool = True
    accelerators: int = 0
    spills: bool = False
    named_cores: tuple[Cores, ...] = ()
    shards: int = 1
    replicas: int = 1
    llm_roles: tuple[LaneRole, ...] = (LaneRole.BOTH,)
    readers_bytes: int = 0

    @property
    def llm_lanes(self) -> int:
        """Lanes of the LLM."""
        return len(self.llm_roles) if self.llm_bytes else 0

    @property
    def retrieval_lanes(self) -> int:
        """Lanes that search."""
        return self.shards * self.replicas

    def embedders(self, cpu_lanes: int) -> int:
        """Return the copies of the embedder: one in each of its lanes, or in each replica."""
        return self.accelerators + cpu_lanes or self.replicas

    def processes(self, cpu_lanes: int) -> int:
        """Return the processes of a server: its own, one for each lane."""
        return 1 + self.retrieval_lanes + self.llm_lanes + self.accelerators + cpu_lanes
