"""Settings of a vector lane and how it is built, inside the lane."""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from heddle.core.call_order import SHORTEST_FIRST, CallOrder
from heddle.core.errors import ConfigError
from heddle.core.ports import SteppedEngine
from heddle.corpus.place import CorpusPlace, Where
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.index_bytes import MemoryLeft, check_memory, mode_of, unlimited
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph import build as graph
from heddle.engines.vector.graph.graph_searches import NO_CLUSTERS
from heddle.engines.vector.graph.progress import OnPhase
from heddle.engines.vector.graph.scheduler import TOPM, TOPM_MAX
from heddle.engines.vector.ivf.early_stop.finality import Finality
from heddle.engines.vector.ivf.early_stop.no_looks import why_never
from heddle.engines.vector.ivf.early_stop.target_stops import TargetStops
from heddle.engines.vector.ivf.hot.setting import HotSettings
from heddle.engines.vector.ivf.ivf_searches import TOPM_UNUSED, ivf_engine
from heddle.engines.vector.ivf.search import IvfSearch
from heddle.engines.vector.pool.build import PoolSettings, pooled
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.shards.folders import remove_other_divisions
from heddle.engines.vector.shards.part import WHOLE, Part
from heddle.engines.vector.shards.source import open_source

if TYPE_CHECKING:
    from heddle.engines.vector.ivf.hot.hot_clusters import HotClusters
    from heddle.engines.vector.ivf.live_index import IvfIndex

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VectorSettings:
    """What a vector lane serves, and how.

    Args:
        directory: this node's work directory of the corpus; the index file lies in its `index`
            folder.
        corpus: where the corpus is; None = in `directory`.
        stale_max_s: how long searches go on while the corpus's database is away [s].
        in_database: whether the corpus's database searches; then there is no index here, `nprobe`
            and `topm` say how far it goes, and nothing else of this counts but the budget.
        nprobe: clusters a query scans by default; None = as the kind of the index wants.
        slots: queries in flight at most; more wait in the lane.
        threads: for one scan, and of FAISS.
        substage_budget_s: time for one step where the runtime doesn't say [s].
        lists_per_step: the most clusters a query scans in a step; None leaves it to the budget.
        topm: candidates that a search of a graph keeps: recall against time; None = TOPM.
        pool: how searches before a prefill and while decoding share the lane; None = no pool.
        hot: which share of the lists lies on a device as well; None = none. A graph has no lists.
        part: which part of the corpus is searched.
        target_recall: what searches find at least on average of the exact hits, in (0, 1), where
            a request allows approximate answers; None = each scans all its clusters. A graph has
            none.
        memory_left: returns how many bytes the lane may still take [bytes]: another index, in the
            background, isn't made where it might need more. Picklable.
        speculates: whether a partial result comes with its probability of being the final one. A
            graph can't.
        must_speculate: whether a graph notes that.
        order: whose lists are scanned first; in a graph the search with the least slack goes first.
        graph_device: where a graph is searched, as torch names it; cpu = by the host's cores.

    Raises:
        ConfigError: a value is out of range.
    """

    directory: Path
    nprobe: int | None = None
    slots: int = 64
    threads: int = 1
    substage_budget_s: float = 0.02
    lists_per_step: int | None = None
    topm: int | None = None
    pool: PoolSettings | None = None
    hot: HotSettings | None = None
    part: Part = WHOLE
    target_recall: float | None = None
    speculates: bool = False
    must_speculate: bool = False
    memory_left: MemoryLeft = unlimited
    order: CallOrder = SHORTEST_FIRST
    corpus: CorpusPlace | None = None
    stale_max_s: float = 0.0
    graph_device: str = graph.HOST
    in_database: bool = False

    @property
    def place(self) -> CorpusPlace:
        """Where the corpus is."""
        return CorpusPlace.of(self.directory) if self.corpus is None else self.corpus

    def __post_init__(self) -> None:
        for name in ("nprobe", "slots", "threads", "lists_per_step"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"vector {name}: need at least 1, got {value}")
        if not self.substage_budget_s > 0:
            raise ConfigError(
                f"vector substage_budget_s: need a positive time, got {self.substage_budget_s}"
            )
        if self.target_recall is not None and not 0 < self.target_recall < 1:
            raise ConfigError(
                f"vector target_recall: need more than 0 and less than 1, got {self.target_recall}"
            )
        if self.topm is not None and not 1 <= self.topm <= TOPM_MAX:
            raise ConfigError(f"vector topm: need 1 to {TOPM_MAX}, got {self.topm}")
        if self.pool is not None and self.slots < 2 * self.pool.slots:
            raise ConfigError(
                f"vector slots: a pool of {self.pool.slots} needs twice as many for those that "
                f"are parked, got {self.slots}"
            )


def build_engine(name: str, epoch: int, settings: VectorSettings) -> SteppedEngine:
    """Open the corpus and its index, and return an engine over them, behind a pool if one is set.

    Raises:
        ConfigError: the index can't be searched in steps.
        HeddleError: the corpus can't be opened.
    """
    if settings.in_database:
        return _database_engine(name, epoch, settings)
    engine: SteppedEngine
    if settings.part.of > 1 and settings.part.number == 0:  # one of the lanes tidies up
        remove_other_divisions(settings.directory, settings.part.of)
    if graph_path(settings.directory).exists():
        engine = graph.build_engine(
            name,
            epoch,
            settings.place,
            settings.part,
            topm=settings.topm or TOPM,
            slots=settings.slots,
            device=settings.graph_device,
            memory_left=settings.memory_left,
            notes=_unused_by_graph(settings),
            stale_max_s=settings.stale_max_s,
        )
    else:
        engine = _ivf_engine(name, epoch, settings)
    return engine if settings.pool is None else pooled(engine, settings.pool)


def _database_engine(name: str, epoch: int, settings: VectorSettings) -> SteppedEngine:
    # Late, because settings are made in processes that never load a database.
    from heddle.corpus.vector_index import SearchEffort
    from heddle.engines.vector.database.build import build_engine as build_database_engine

    effort = SearchEffort(candidates=settings.topm, lists=settings.nprobe)
    return build_database_engine(name, epoch, settings.place, effort, settings.substage_budget_s)


def _unused_by_graph(settings: VectorSettings) -> tuple[str, ...]:
    """Return which settings a graph has no use for, as the log and each receipt name them."""
    asked = {
        "nprobe": settings.nprobe is not None,
        "hot_clusters": settings.hot is not None,
        "target recall": settings.target_recall is not None,
        "speculative": settings.must_speculate,
    }
    notes = tuple(f"{name}: {NO_CLUSTERS}" for name, is_asked in asked.items() if is_asked)
    for note in notes:
        log.warning("%s", note)
    return notes


def _ivf_engine(name: str, epoch: int, settings: VectorSettings) -> SearchEngine[IvfSearch]:
    # Late, because settings are made in processes that never load FAISS.
    import faiss

    from heddle.engines.vector.corpus.rebuild import Rebuild
    from heddle.engines.vector.ivf.compared_lists import ComparedLists
    from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
    from heddle.engines.vector.ivf.index_file import open_index
    from heddle.engines.vector.ivf.live_index import LiveIndex
    from heddle.engines.vector.perf_clock import PerfClock

    faiss.omp_set_num_threads(settings.threads)
    directory = settings.part.directory(settings.directory)
    # What was chosen for the whole corpus counts, not what the part's own index was made for.
    mode = None if settings.part == WHOLE else mode_of(settings.directory)
    source = open_source(settings.place, settings.part)
    live = open_index(directory, source, mode, saves_tail=False)

    def reopen() -> LiveIndex:
        # As a lane would open it now: an indexer may have left a better file, else it is made.
        with closing(open_source(settings.place, settings.part)) as own_source:
            check_memory(own_source, mode or mode_of(directory), settings.memory_left)
            return open_index(directory, own_source, mode)

    make_hot = None if settings.hot is None else _hot_maker(settings.hot)
    rebuild = Rebuild(reopen, PerfClock())
    if live.wants_saving:  # searches don't wait until it is
        rebuild.start()
    staleness = Staleness(settings.stale_max_s)
    corpus = FollowedIvf(
        live, source, settings.nprobe, settings.threads, rebuild, make_hot, staleness
    )
    compared = ComparedLists(corpus)
    check = SelfCheck(compared)
    target = settings.target_recall
    if target is not None and live.count:
        why = why_never(live.kind, live.count, live.nlist, settings.nprobe)
        if why:
            log.warning("recall: %s", why)
    if settings.topm is not None:
        log.warning("%s", TOPM_UNUSED)
    return ivf_engine(
        name,
        epoch,
        corpus,
        PerfClock(),
        slots=settings.slots,
        substage_budget_s=settings.substage_budget_s,
        lists_per_step=settings.lists_per_step,
        check=check,
        stops=None if target is None else TargetStops(compared, check, target),
        finality=Finality() if settings.speculates else None,
        order=settings.order,
        notes=() if settings.topm is None else (TOPM_UNUSED,),
    )


def _hot_maker(hot: HotSettings) -> "Callable[[IvfIndex], HotClusters]":
    # Late: torch takes seconds to load, and without hot clusters nothing here needs it.
    import torch

    from heddle.engines.vector.ivf.hot.build import build_hot_clusters
    from heddle.engines.vector.perf_clock import PerfClock

    return partial(
        build_hot_clusters, share=hot.share, device=torch.device(hot.device), clock=PerfClock()
    )


def refresh_index(
    where: Where,
    mode: SearchMode | None = None,
    on_phase: OnPhase = lambda phase, done, count: None,
) -> None:
    """Bring this node's index file of a corpus up to its newest revision.

    `mode` None keeps the one that the index was made for, at first AUTO. `on_phase` hears how far
    the build of a graph is, which takes minutes in a large corpus.

    Raises:
        HeddleError: the corpus can't be opened, or the disk refused (the old file stays valid).
    """
    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector.ivf import index_file

    place = CorpusPlace.of(where)
    if mode is SearchMode.GRAPH or (mode is None and graph_path(place.work).exists()):
        graph.refresh_graph(place, on_phase)
        return
    with CorpusStore.open(place) as source:
        index_file.refresh_index(place.work, source, mode)
    graph_path(place.work).unlink(missing_ok=True)  # from now on the lists are searched
