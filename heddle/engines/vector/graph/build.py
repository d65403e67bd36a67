"""Settings of a graph search lane and how it is built, inside the lane."""

from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import ConfigError
from heddle.engines.vector.graph.engine import GraphEngine
from heddle.engines.vector.graph.scheduler import TOPM_MAX


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """What a graph search lane serves, and how.

    Args:
        file: the graph, as `write_graph` left it.
        topm: candidates that a search keeps where it doesn't say: recall against time.
        slots: queries in flight at most; more wait in the lane.
        substage_budget_s: time for one step where the runtime doesn't say [s].

    Raises:
        ConfigError: a value is out of range.
    """

    file: Path
    topm: int = 64
    slots: int = 64
    substage_budget_s: float = 5e-4

    def __post_init__(self) -> None:
        if not 1 <= self.topm <= TOPM_MAX:
            raise ConfigError(f"graph topm: need 1 to {TOPM_MAX}, got {self.topm}")
        if self.slots < 1:
            raise ConfigError(f"graph slots: need at least 1, got {self.slots}")
        if not self.substage_budget_s > 0:
            raise ConfigError(
                f"graph substage_budget_s: need a positive time, got {self.substage_budget_s}"
            )


def build_engine(name: str, epoch: int, settings: GraphSettings) -> GraphEngine:
    """Open a graph's file and return an engine over it.

    Raises:
        InputError: the file is no graph, or corrupt.
        StorageError: it can't be read.
    """
    # Late, because settings are made in processes that never compile anything.
    from heddle.engines.vector.graph.graph_file import open_graph
    from heddle.engines.vector.graph.worker import NumbaWorker
    from heddle.engines.vector.perf_clock import PerfClock

    worker = NumbaWorker(open_graph(settings.file), settings.slots)
    return GraphEngine(
        name,
        epoch,
        worker,
        PerfClock(),
        topm=settings.topm,
        substage_budget_s=settings.substage_budget_s,
    )
