"""Which part of a generation an LLM lane carries out. (Trinity §3.1)"""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from itertools import count
from typing import Final

from heddle.core.errors import ConfigError


class LaneRole(StrEnum):
    """What a lane does: whole generations, only their prompts, or only what follows these."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"

    @property
    def prefills(self) -> bool:
        """Whether prompts are computed there."""
        return self is not LaneRole.DECODE

    @property
    def decodes(self) -> bool:
        """Whether answers are written there."""
        return self is not LaneRole.PREFILL


ROLES: Final = tuple(role.value for role in LaneRole)


def lane_roles(text: str) -> tuple[LaneRole, ...]:
    """Return the roles of a text such as "prefill,decode,decode", a lane each.

    Raises:
        ConfigError: it names something else, or a lane that would have nothing to do.
    """
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in ROLES]
    if unknown:
        raise ConfigError(
            f"llm_lanes is {text!r}: {unknown[0]!r} is no role; name one of {', '.join(ROLES)} "
            "for each lane"
        )
    roles = tuple(map(LaneRole, names))
    if LaneRole.PREFILL in roles and not any(role.decodes for role in roles):
        raise ConfigError(
            f"llm_lanes is {text!r}: no lane decodes what the prefill lanes hand over; add decode"
        )
    if LaneRole.DECODE in roles and LaneRole.PREFILL not in roles:
        raise ConfigError(
            f"llm_lanes is {text!r}: no prefill lane hands the decode lanes anything; add prefill"
        )
    return roles


def lane_names(roles: Sequence[LaneRole]) -> tuple[str, ...]:
    """Return the lanes' names: llm for one that does all, else by role, numbered where needed."""
    if tuple(roles) == (LaneRole.BOTH,):
        return ("llm",)
    several = {role for role, lanes in Counter(roles).items() if lanes > 1}
    numbers = {role: count() for role in LaneRole}
    return tuple(
        f"llm-{role.value}" + (f"-{next(numbers[role])}" if role in several else "")
        for role in roles
    )
