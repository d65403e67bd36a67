"""Clusters that a search scans for a promised recall, by what the one before it found.

Sequences of real texts (HedraRAG §4.3, fig. 9): `chains`, a multi-hop question and then the
question with the first passage that it needs, as a workflow asks after a first retrieval, over the
passages of the wiki index; `topics` (not in --quick), two questions about the same disease or
topic, over these and the medical passages. Vectors by MiniLM, k 10, 64 clusters planned (--quick
has only 42). Shown but not in the headline: `halves`, the second questions of chains behind a
search with half of their passage, as a speculative retrieval from a half-written text makes it;
and `unrelated`, two questions drawn at random.

Orders: `none`, by the distance of the centroids; `hard`, the paper's; `soft`, ours, which counts
what was found in a cluster by how near the two questions are. For the last two the 20 hits of the
search before are compared first. All are searches of the engine over an index of whole vectors,
which looks at each after 4, 5, 6, 7, 8, 10, ... clusters and then finds its exact hits, of all
clusters: what is calibrated by is what a server calibrates by. Each order has its own stop, for a
mean recall of 0.95: the model is fitted on a third of the pairs, its limit found on another, and
both measured on the last; means of 20 random splits. `needed` is the mean number of clusters at the
look after which nothing more was found. `clusters_ratio` is soft over none, `recall_shortfall` what
soft lacks of the target; both the worst of the sequences.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.fixed_source import FixedSource
from benchmarks.support.hard_order import hard_order
from benchmarks.support.noted_stops import NotedStops
from benchmarks.support.question_pairs import Pair, chains, halves, topics
from benchmarks.support.question_vectors import text_vectors
from benchmarks.support.wiki_index import med_index, wiki_index
from heddle.core.commands import Admit
from heddle.core.frames import Done
from heddle.core.payloads import SearchPayload
from heddle.core.primitives import PrimitiveKind
from heddle.core.tasks import Identity, Optimizations, Task
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.ivf.compared_lists import ComparedLists
from heddle.engines.vector.ivf.early_stop.orders import Planned, soft_order
from heddle.engines.vector.ivf.early_stop.scans import Scans
from heddle.engines.vector.ivf.early_stop.stop_rule import StopRule
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.ivf_searches import ivf_engine
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.perf_clock import PerfClock
from heddle.engines.vector.recall.self_check import SelfCheck

K: Final = 10
NPROBE: Final = 64
TARGET: Final = 0.95
SPLITS: Final = 20
PAIRS: Final = 600
HEADLINE: Final = ("chains", "topics")
ORDERS: Final = ("none", "hard", "soft")

Vectors = NDArray[np.float32]


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run the comparison; returns a row for each sequence and order, and the headline."""
    faiss.omp_set_num_threads(1)
    wiki = wiki_index(quick)
    hops = list(itertools.islice(chains(wiki.multihop), PAIRS))
    sets: list[tuple[str, list[Pair], list[Path]]] = [("chains", hops, [wiki.directory])]
    if not quick:
        same_topic = list(itertools.islice(topics(), PAIRS))
        sets.append(("topics", same_topic, [wiki.directory, med_index()]))
    unfinished = list(itertools.islice(halves(wiki.multihop), PAIRS))
    sets.append(("halves", unfinished, [wiki.directory]))
    rng = np.random.default_rng(seed)
    firsts = [first for first, _ in hops]
    sets.append(
        ("unrelated", list(zip(firsts, rng.permutation(firsts), strict=True)), [wiki.directory])
    )
    rows: list[dict[str, Any]] = []
    for name, pairs, folders in sets:
        source = FixedSource(np.concatenate([_passages(folder) for folder in folders]))
        corpus = FollowedIvf(LiveIndex.build(source, kind=IndexKind.FLAT), source)
        texts = [text for pair in pairs for text in pair]
        vectors = text_vectors(texts).reshape(len(pairs), 2, -1)
        for order in ORDERS:
            scans = Searcher(corpus, order).scans(vectors)
            rows.append({"sequence": name, "order": order, **_measured(scans, seed)})
            print(_line(rows[-1]))
    settings = {"k": K, "nprobe": NPROBE, "target": TARGET, "splits": SPLITS, "pairs": PAIRS}
    return {"settings": settings, "rows": rows, "headline": _headline(rows)}


def prepare() -> None:
    """Embed the medical passages, so that a run only measures."""
    med_index()


def _passages(folder: Path) -> Vectors:
    with CorpusStore.open(folder) as store:
        return np.concatenate([batch.vectors for batch in store.vectors()])


class OftenAsked(ComparedLists):
    """Looks at searches after each cluster or so, as in a large index, where clusters are larger.

    In this one that would take longer than it saves: a server looks less often.
    """

    @property
    def vectors_per_look(self) -> int:
        return 1


class Searcher:
    """The engine over an index, with an order of clusters, as a server has it.

    Each search goes to its end, is looked at on its way, and is run again exactly.
    """

    def __init__(self, corpus: FollowedIvf, order: str) -> None:
        self._scanner, lists = corpus.scanner, OftenAsked(corpus)
        self._planned = min(NPROBE, len(lists.list_sizes))
        self._remembers = order != "none"
        check = SelfCheck(lists, share=1.0)
        turns = self._hard_order if order == "hard" else soft_order
        self._stops = NotedStops(lists, check, TARGET, turns)
        self._engine = ivf_engine("vector", 0, corpus, PerfClock(), check=check, stops=self._stops)
        self._tasks = 0

    def scans(self, pairs: Vectors) -> Scans:
        """Return the second searches of pairs, [n, 2, d], as the engine calibrates by them."""
        found = []
        for number, (first, second) in enumerate(pairs):
            request = 2 * number
            self._search(request, first)
            self._search(request if self._remembers else request + 1, second)
            scan = self._stops.newest
            assert scan is not None, "the search was not run again"
            found.append(scan)
        return Scans.joined(found)

    def _search(self, request: int, query: Vectors) -> None:
        self._tasks += 1
        payload = SearchPayload(query[None], K, self._planned)
        identity = Identity(request, "search")
        kind, mode = PrimitiveKind.SEARCHING, Optimizations.APPROX
        self._engine.apply(Admit(Task(self._tasks, kind, identity, payload, optimizations=mode), 0))
        while self._engine.has_work:  # also until it was run again
            for event in self._engine.step(0.0, math.inf).events:
                assert isinstance(event, Done), event

    def _hard_order(self, planned: Planned) -> NDArray[np.int64]:
        if planned.past is None:
            return soft_order(planned)
        before = self._scanner.coarse(planned.past.query[None], self._planned)[0]
        return hard_order(planned.lists, planned.past, before)


def _measured(scans: Scans, seed: int) -> dict[str, Any]:
    """Return what calibrated stops scan and find, over random splits."""
    clusters, recalls = [], []
    most = scans.recall[:, -1:]
    for split in range(SPLITS):
        order = np.random.default_rng([seed, split]).permutation(len(scans.recall))
        fitted_on, calibrated_on, held_back = (
            scans.part(part) for part in np.array_split(order, 3)
        )
        stops = StopRule.calibrated(fitted_on, calibrated_on, TARGET).stops(held_back)
        clusters.append(float(scans.looks[stops].mean()))
        recalls.append(float(held_back.recall[np.arange(len(stops)), stops].mean()))
    return {
        "pairs": len(scans.recall),
        "planned": scans.distances.shape[1],
        "needed": float(scans.looks[np.argmax(scans.recall >= most, axis=1)].mean()),
        "full_recall": float(most.mean()),
        "clusters": float(np.mean(clusters)),
        "recall": float(np.mean(recalls)),
        "recall_min": min(recalls),
    }


def _headline(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    by = {(row["sequence"], row["order"]): row for row in rows if row["sequence"] in HEADLINE}
    softs = [(name, row) for (name, order), row in by.items() if order == "soft"]
    ratios = [row["clusters"] / by[name, "none"]["clusters"] for name, row in softs]
    return {
        "clusters_ratio": round(max(ratios), 3),
        "recall_shortfall": round(max(0.0, *(TARGET - row["recall"] for _, row in softs)), 4),
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['sequence']:<9} {row['order']:<4}  needs {row['needed']:5.1f}, stops after "
        f"{row['clusters']:5.1f} of {row['planned']} clusters, recall {row['recall']:.4f} "
        f"(worst split {row['recall_min']:.3f}, all {row['full_recall']:.4f}), {row['pairs']} pairs"
    )
