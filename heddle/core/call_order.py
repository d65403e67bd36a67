"""In which order an engine serves the calls of one class. Pure."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from heddle.core.errors import ConfigError
from heddle.core.tasks import Task

AGEING_DEFAULT: Final = 0.33
DEPTHS_MAX: Final = 1 << 12  # levels of a graph that count; 2^41 requests still fit


class FirstServed(Enum):
    """Whose call an engine serves first."""

    SHORTEST = "shortest"  # that of the least work for the engine, with ageing
    ARRIVAL = "arrival"  # the first that came
    REQUEST = "request"  # the oldest request's, its deepest first (Teola §5.2, Algorithm 2)


@dataclass(frozen=True, slots=True)
class CallOrder:
    """The rank of each call, settled when it comes: no later call changes it.

    Shortest first shortens the median wherever calls differ in size and some wait. Ageing bounds
    the price that long ones pay: a call is due once it has waited `1 / ageing` times its own time,
    and among those that wait the one that is due first is served. So a call is overtaken
    only by those that come before it is due, and none waits for ever.

    Args:
        first: whose call is served first.
        ageing: of SHORTEST: seconds of a call's own work that a second of waiting makes up for.

    Raises:
        ConfigError: `ageing` is not a positive number.
    """

    first: FirstServed = FirstServed.SHORTEST
    ageing: float = AGEING_DEFAULT

    def __post_init__(self) -> None:
        if not self.ageing > 0:
            raise ConfigError(
                f"ageing must be above 0, got {self.ageing}; default {AGEING_DEFAULT}"
            )

    def rank(self, task: Task, now_s: float, own_s: float) -> float:
        """Return a call's rank: of those of its class that wait, the lowest is served first.

        Args:
            task: the call.
            now_s: when it came, by the lane's clock [s].
            own_s: its predicted time alone on this engine [s].

        Returns: when it is due [s]; by REQUEST, a number that orders requests and depths.
        """
        if self.first is FirstServed.REQUEST:
            identity = task.identity
            age = identity.first_request or identity.request_id
            return age - min(identity.depth, DEPTHS_MAX - 1) / DEPTHS_MAX
        if self.first is FirstServed.ARRIVAL:
            return now_s
        # With a deadline it is due no later than when it must begin to keep that.
        latest_s = max(0.0, task.seconds_left - own_s)
        return now_s + min(own_s / self.ageing, latest_s)


SHORTEST_FIRST: Final = CallOrder()
