"""Settings of a vector lane and how it is built, inside the lane."""

from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import ConfigError
from heddle.engines.vector.engine import VectorEngine
from heddle.engines.vector.index_kind import SearchMode


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """What a vector lane serves, and how.

    Args:
        directory: the corpus directory; the index file lives in its `index` folder.
        nprobe: clusters a query scans by default; None = as the kind of the index wants.
        slots: queries in flight at most; more wait in the lane.
        threads: FAISS threads.
        substage_budget_s: time for one step where the runtime doesn't say [s].
        lists_per_step: the most clusters a query scans in a step; None leaves it to the budget.

    Raises:
        ConfigError: a value is out of range.
    """

    directory: Path
    nprobe: int | None = None
    slots: int = 64
    threads: int = 1
    substage_budget_s: float = 2e-3
    lists_per_step: int | None = None

    def __post_init__(self) -> None:
        for name in ("nprobe", "slots", "threads", "lists_per_step"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"vector {name}: need at least 1, got {value}")
        if not self.substage_budget_s > 0:
            raise ConfigError(
                f"vector substage_budget_s: need a positive time, got {self.substage_budget_s}"
            )


def build_engine(name: str, epoch: int, settings: VectorSettings) -> VectorEngine:
    """Open the corpus and its index, and return an engine over them.

    Raises:
        ConfigError: the index can't be searched in steps.
        HeddleError: the corpus can't be opened.
    """
    # Late, because settings are made in processes that never load FAISS.
    import faiss

    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector.index_file import open_index
    from heddle.engines.vector.live_index import LiveIndex
    from heddle.engines.vector.perf_clock import PerfClock
    from heddle.engines.vector.rebuild import Rebuild
    from heddle.engines.vector.worker import FaissWorker

    faiss.omp_set_num_threads(settings.threads)
    source = CorpusStore.open(settings.directory)
    live = open_index(settings.directory, source)

    def reopen() -> LiveIndex:
        # As a lane would open it now: an indexer may have left a better file, else it is made.
        with CorpusStore.open(settings.directory) as own_source:
            return open_index(settings.directory, own_source)

    worker = FaissWorker(live, source, settings.nprobe, settings.threads, Rebuild(reopen))
    return VectorEngine(
        name,
        epoch,
        worker,
        PerfClock(),
        slots=settings.slots,
        substage_budget_s=settings.substage_budget_s,
        lists_per_step=settings.lists_per_step,
    )


def refresh_index(directory: Path, mode: SearchMode | None = None) -> None:
    """Bring the index file of a corpus directory up to its newest revision.

    `mode` None keeps the one that the index was made for, at first AUTO.

    Raises:
        HeddleError: the corpus can't be opened, or the disk refused (the old file stays valid).
    """
    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector import index_file

    with CorpusStore.open(directory) as source:
        index_file.refresh_index(directory, source, mode)
