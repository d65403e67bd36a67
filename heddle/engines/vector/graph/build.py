"""How the graph of a corpus directory gets its engine, inside the lane, and is kept up to date."""

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final

from heddle.corpus.place import CorpusPlace
from heddle.engines.vector.corpus.staleness import Staleness
from heddle.engines.vector.engine import SearchEngine
from heddle.engines.vector.files.index_bytes import MemoryLeft, check_memory
from heddle.engines.vector.files.index_kind import SearchMode
from heddle.engines.vector.graph.graph_searches import graph_engine
from heddle.engines.vector.graph.progress import OnPhase
from heddle.engines.vector.graph.search import GraphSearch
from heddle.engines.vector.recall.self_check import SelfCheck
from heddle.engines.vector.shards.part import Part
from heddle.engines.vector.shards.source import open_source

if TYPE_CHECKING:
    from heddle.engines.vector.graph.live_graph import LiveGraph

NICENESS: Final = 10  # of the thread that builds another graph: searches come first


def build_engine(
    name: str,
    epoch: int,
    corpus: CorpusPlace,
    part: Part,
    *,
    topm: int,
    slots: int,
    memory_left: MemoryLeft,
    notes: tuple[str, ...],
    stale_max_s: float,
) -> SearchEngine[GraphSearch]:
    """Open a part of a corpus and its graph, and return an engine over them.

    A graph that can't be used, or that the corpus has outgrown, is built again in the background.
    Every search has `notes`; `memory_left` may keep a graph from being built;
    `stale_max_s` is how long searches go on while the corpus is away [s].

    Raises:
        HeddleError: the corpus can't be opened.
    """
    # Late, because settings are made in processes that never compile anything.
    from heddle.engines.vector.corpus.rebuild import Rebuild
    from heddle.engines.vector.graph.corpus_graph import FollowedGraph, build_live, read_live
    from heddle.engines.vector.graph.worker import NumbaWorker
    from heddle.engines.vector.perf_clock import PerfClock

    def build_again() -> "LiveGraph":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        with closing(open_source(corpus, part)) as own_source:
            check_memory(own_source, SearchMode.GRAPH, memory_left)
            return build_live(directory, own_source, lambda phase, done, count: None)

    directory, source = part.directory(corpus.work), open_source(corpus, part)
    live = read_live(directory, source)
    worker = NumbaWorker(live, slots)
    rebuild = Rebuild(build_again, PerfClock())
    followed = FollowedGraph(live, worker, source, rebuild, Staleness(stale_max_s))
    check = SelfCheck(worker)
    return graph_engine(
        name, epoch, worker, PerfClock(), followed, topm=topm, check=check, notes=notes
    )


def refresh_graph(place: CorpusPlace, on_phase: OnPhase) -> None:
    """Build this node's graph of a corpus, where it isn't there or is outgrown.

    Raises:
        HeddleError: the corpus can't be opened, or the disk refused (an old file stays valid).
    """
    from heddle.corpus.store import CorpusStore
    from heddle.engines.vector.graph import corpus_graph

    with CorpusStore.open(place) as source:
        corpus_graph.refresh_graph(place.work, source, on_phase)
