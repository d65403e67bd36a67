"""How many equal lanes of a kind a server has: "llm=2,retrieval=2". (Teola §5)"""

from typing import Final, NamedTuple

from heddle.core.errors import ConfigError
from heddle.engines.llm.lanes.lane_role import LaneRole, lane_roles

REPLICAS_MAX: Final = 16


class Replicas(NamedTuple):
    """Equal lanes of each kind; 1 = one lane, which is started again when it dies."""

    llm: int = 1
    retrieval: int = 1


def replicas_of(text: str) -> Replicas:
    """Return what a text such as "llm=2,retrieval=2" says; 1 of each kind left out.

    Raises:
        ConfigError: it names something else, or a number that can't be.
    """
    counts: dict[str, int] = {}
    for part in map(str.strip, text.split(",")):
        name, _, count = (word.strip() for word in part.partition("="))
        is_number = count.isascii() and count.isdigit() and 1 <= int(count) <= REPLICAS_MAX
        if name not in Replicas._fields or name in counts or not is_number:
            raise ConfigError(
                f"replicas is {text!r}: {part!r} is not understood; name llm and retrieval, each "
                f"once with a number from 1 to {REPLICAS_MAX}, such as llm=2,retrieval=2"
            )
        counts[name] = int(count)
    return Replicas(**counts)


def roles_of(llm_lanes: str, replicas: str) -> tuple[LaneRole, ...]:
    """Return the roles of a server's LLM lanes.

    Raises:
        ConfigError: a text is wrong.
    """
    count = replicas_of(replicas).llm
    return lane_roles(llm_lanes) if count == 1 else (LaneRole.BOTH,) * count
