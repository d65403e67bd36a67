"""How a prompt's retrieved chunks may use KV that was computed elsewhere."""

from dataclasses import dataclass
from enum import Enum

from heddle.core.errors import ConfigError


class ReusePolicy(Enum):
    """Which tokens of reused chunks are computed anew in the request's own context."""

    FULL = "full"  # all of them: no reuse beyond the exact prefix
    FULL_REUSE = "full_reuse"  # none
    EPIC = "epic"  # the first of each chunk
    FUSIONRAG = "fusionrag"  # those that the question looks at (FusionRAG §3.2)


@dataclass(frozen=True, slots=True)
class KvReuse:
    """A policy, and the share of reused tokens that it may compute anew.

    `primed` prefers KV that has seen the chunk's nearest neighbours (FusionRAG §3.1).

    Raises: ConfigError: the ratio is outside [0, 1].
    """

    policy: ReusePolicy = ReusePolicy.FULL
    ratio: float = 0.15
    primed: bool = True

    @property
    def is_approximate(self) -> bool:
        """Whether answers may differ from those of full attention."""
        return self.policy is not ReusePolicy.FULL

    def __post_init__(self) -> None:
        if not 0.0 <= self.ratio <= 1.0:
            raise ConfigError(
                f"kv_reuse.ratio is {self.ratio}; it is a share of tokens, from 0 to 1"
            )


FULL_ATTENTION = KvReuse()
