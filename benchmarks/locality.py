"""Clusters that a search scans for a promised recall, by what the one before it found.

Sequences of real texts (HedraRAG §4.3, fig. 9): `chains`, a multi-hop question and then the
question with the first passage that it needs, as a workflow asks after a first retrieval, over the
passages of the wiki index; `topics` (not in --quick), two questions about the same disease or
topic, over these and the medical passages. `unrelated`: two questions drawn at random, shown but
not in the headline. Vectors by MiniLM, k 10, 64 clusters
planned (--quick has only 31).

Orders: `none`, by the distance of the centroids; `hard`, the paper's; `soft`, ours, which counts
what was found in a cluster by how near the two questions are. For the last two the 20 hits of the
search before are compared first. Each order has its own stop, calibrated for a mean recall of 0.95
against all of these: the model is fitted on a third of the pairs, its limit found on another,
and both measured on the last; means of 20 random splits. `needed` is the mean number of clusters
after which nothing more was found. `clusters_ratio` is soft over none, `recall_shortfall` what soft
lacks of the target; both the worst of the sequences.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.support.hard_order import hard_order
from benchmarks.support.question_pairs import Pair, chains, topics
from benchmarks.support.question_vectors import text_vectors
from benchmarks.support.scan_in_turns import scan_in_turns
from benchmarks.support.wiki_index import med_index, wiki_index
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.live_index import nlist_for
from heddle.engines.vector.locality.orders import CACHED_HITS, Past, history_bonus, soft_order
from heddle.engines.vector.locality.scans import Scans
from heddle.engines.vector.locality.stop_rule import StopRule

K: Final = 10
NPROBE: Final = 64
TARGET: Final = 0.95
SPLITS: Final = 20
PAIRS: Final = 600
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
    rng = np.random.default_rng(seed)
    firsts = [first for first, _ in hops]
    sets.append(
        ("unrelated", list(zip(firsts, rng.permutation(firsts), strict=True)), [wiki.directory])
    )
    rows: list[dict[str, Any]] = []
    for name, pairs, folders in sets:
        lists = Lists(np.concatenate([_passages(folder) for folder in folders]))
        texts = [text for pair in pairs for text in pair]
        vectors = text_vectors(texts).reshape(len(pairs), 2, -1)
        for order in ORDERS:
            scans = lists.scans(vectors, order)
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


class Lists:
    """Passages [n, d] in clusters, as an index of that size has them."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        kmeans = faiss.Kmeans(
            vectors.shape[1],
            nlist_for(len(vectors)),
            niter=10,
            seed=1234,
            min_points_per_centroid=1,
        )
        kmeans.train(vectors)
        assert kmeans.centroids is not None, "k-means has no centroids after its training"
        self._centroids: Vectors = kmeans.centroids
        self._list_of: NDArray[np.int64] = kmeans.index.search(vectors, 1)[1][:, 0]
        self._sizes = np.bincount(self._list_of, minlength=len(self._centroids))
        self._nprobe = min(NPROBE, len(self._centroids))

    def scans(self, pairs: Vectors, order: str) -> Scans:
        """Return the second searches of pairs [n, 2, d], their clusters in this order."""
        return Scans.joined([self._scan(first, second, order) for first, second in pairs])

    def _scan(self, first: Vectors, second: Vectors, order: str) -> Scans:
        lists, far = self._nearest_lists(second)
        past: Past | None = None
        cached = np.zeros(0, np.int64)
        if order != "none":
            past, cached = self._past(first)
        bonuses = history_bonus(lists, second, past)
        if order == "hard":
            assert past is not None, "the hard order needs a past"
            turns = hard_order(lists, past, self._nearest_lists(first)[0])
        else:
            turns = soft_order(far, bonuses)
        lists, far, bonuses = lists[turns], far[turns], bonuses[turns]
        turn_of = np.full(len(self._centroids), len(lists))
        turn_of[lists] = np.arange(len(lists))
        rows = np.flatnonzero(turn_of[self._list_of] < len(lists))
        distances = np.linalg.norm(self._vectors[rows] - second, axis=1)
        turn = turn_of[self._list_of[rows]] + 1
        turn[np.isin(rows, cached)] = 0
        kth, found = scan_in_turns(distances, turn, len(lists), K)
        return Scans(
            K,
            np.arange(len(lists) + 1),
            np.sqrt(far)[None],
            self._sizes[lists][None],
            bonuses[None],
            np.diff(found)[None],
            kth[None],
            found[None] / found[-1],
        )

    def _past(self, query: Vectors) -> tuple[Past, NDArray[np.int64]]:
        """Return what a search leaves, and the passages of its cached hits."""
        lists, _ = self._nearest_lists(query)
        rows = np.flatnonzero(np.isin(self._list_of, lists))
        distances = np.linalg.norm(self._vectors[rows] - query, axis=1)
        hits = rows[np.argsort(distances)[:CACHED_HITS]]
        return Past(query, self._list_of[hits]), hits

    def _nearest_lists(self, query: Vectors) -> tuple[NDArray[np.int64], Vectors]:
        far = ((self._centroids - query) ** 2).sum(axis=1)
        lists = np.argsort(far, kind="stable")[: self._nprobe]
        return lists, far[lists]


def _measured(scans: Scans, seed: int) -> dict[str, Any]:
    """Return what calibrated stops scan and find, over random splits."""
    clusters, recalls = [], []
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
        "needed": float(np.argmax(scans.recall == 1, axis=1).mean()),
        "clusters": float(np.mean(clusters)),
        "recall": float(np.mean(recalls)),
        "recall_min": min(recalls),
    }


def _headline(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    by = {(row["sequence"], row["order"]): row for row in rows if row["sequence"] != "unrelated"}
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
        f"(worst split {row['recall_min']:.3f}), {row['pairs']} pairs"
    )
