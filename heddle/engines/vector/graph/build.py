"""How the graph of a corpus directory gets its engine, inside the lane, and is kept up to date."""

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

from heddle.core.errors import ConfigError
from heddle.corpus.place import CorpusPlace
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.index_bytes import MemoryLeft, check_memory
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.progress import OnPhase
from heddle.engines.vector.graph.scheduler import RUNNABLE
from heddle.engines.vector.graph.search import GraphSearch
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.shards.part import Part
from heddle.engines.vector.shards.source import open_source

if TYPE_CHECKING:
    from heddle.engines.vector.graph.live_graph import LiveGraph
    from heddle.engines.vector.graph.live_worker import LiveWorker

NICENESS: Final = 10  # of the thread that builds another graph: searches come first
HOST: Final = "cpu"  # the device of a graph that is searched by the host's cores


def build_engine(
    name: str,
    epoch: int,
    corpus: CorpusPlace,
    part: Part,
    *,
    topm: int,
    slots: int,
    device: str,
    memory_left: MemoryLeft,
    notes: tuple[str, ...],
    stale_max_s: float,
) -> SearchEngine[GraphSearch]:
    """Open a part of a corpus and its graph, and return an engine over them.

    A graph that can't be used, or that the corpus has outgrown, is built again in the background.
    It is searched on `device`. Every search has `notes`; `memory_left` may keep a graph from being
    built; `stale_max_s` is how long searches go on while the corpus is away [s].

    Raises:
        HeddleError: the corpus can't be opened, or the graph doesn't fit onto the device.
    """
    # Late, because settings are made in processes that never compile anything.
    from heddle.engines.vector.corpus.rebuild import Rebuild
    from heddle.engines.vector.graph.corpus_graph import FollowedGraph, build_live, read_live
    from heddle.engines.vector.perf_clock import PerfClock

    def build_again() -> "LiveGraph":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        with closing(open_source(corpus, part)) as own_source:
            check_memory(own_source, SearchMode.GRAPH, memory_left)
            return build_live(
                directory,
                own_source,
                lambda phase, done, count: None,
                graph_path(corpus.work).exists,  # an indexer may have chosen lists meanwhile
            )

    directory, source = part.directory(corpus.work), open_source(corpus, part)
    live = read_live(directory, source)
    worker = _worker(live, slots, device)
    rebuild = Rebuild(build_again, PerfClock())
    followed = FollowedGraph(live, worker, source, rebuild, Staleness(stale_max_s))
    check = SelfCheck(worker)
    return graph_engine(
        name,
        epoch,
        worker,
        PerfClock(),
        followed,
        topm=topm,
        runnable=RUNNABLE if device == HOST else slots,
        check=check,
        notes=notes,
    )


def _worker(live: "LiveGraph", slots: int, device: str) -> "LiveWorker":
    """Return what searches a graph: compiled code on the host's cores, or a GPU's kernel.

    Raises:
        ConfigError: the device can't be used, or has no room for the graph.
    """
    if device == HOST:
        from heddle.engines.vector.graph.worker import NumbaWorker

        return NumbaWorker(live, slots)
    # Late: torch takes seconds to load, and a search on the host needs none.
    import torch

    from heddle.engines.vector.graph.gpu.device_worker import DeviceWorker

    try:
        return DeviceWorker(live, torch.device(device), slots)
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"the graph doesn't fit onto {device} ({error}): set graph_device to cpu"
        ) from error


def refresh_graph(place: CorpusPlace, on_phase: OnPhase) -> None:
    """Build this node's graph of a corpus, where it isn't there or is outgrown.

    Raises:
        HeddleError: the corpus can't be opened, or the disk refused (an old file stays valid).
    """
    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector.graph import corpus_graph

    with CorpusStore.open(place) as source:
        corpus_graph.refresh_graph(place.work, source, on_phase)
