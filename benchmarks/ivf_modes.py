"""Recall and speed of every search mode on real vectors, beside FAISS, hnswlib and usearch.

Who is compared with whom, over the passages of the wiki index and real questions (MiniLM), k 10:
our engine with the default index (PQ FastScan, refined in float16), with the exact one (Panorama)
and with whole vectors in lists; against FAISS IVFFlat over the same number of lists, FAISS
IndexFlatL2, FAISS HNSW, hnswlib and usearch (M 16 each). All questions are one batch, on one
core, CPU time, the methods in turns, medians. Recall is against a full scan. A method's speed at
recall 0.96 lies between its two neighbouring settings, on a straight line of log(queries/s).
`panorama_x` is the exact mode over FAISS IVFFlat scanning as many lists, all of them;
`panorama_x_gemm` over IndexFlatL2, which makes one matrix product of the whole batch; `shared_x` is
our scan of whole vectors, which all questions share, over FAISS IVFFlat like the first.
Ours goes through the engine with its slots, heaps and hits; what can't be imported is left out.

What a first threshold would save the exact mode, on the chains of `locality`, the second search
after the first: `exact, unseeded` begins without one, as ours does; `exact, seeded` with the
distance of the k-th nearest of the 20 hits of the search before, which is measured in that time;
`exact, best seed` with that of its own k-th hit: none could save more. `seeded_x` and `best_seed_x`
are their speeds over the first's. `seeded_compared` and `best_seed_compared` are the coordinates
that they compare over the first's, by FAISS's own count, which nothing beside them disturbs.
"""

import itertools
import time
from collections.abc import Sequence
from typing import Any, Final

import faiss
import numpy as np

from benchmarks.contenders.vector_indexes import ours, peers
from benchmarks.support.first_threshold import begun_with
from benchmarks.support.question_pairs import chains
from benchmarks.support.question_vectors import text_vectors
from benchmarks.support.search_methods import K, Method, Vectors, qps_at
from benchmarks.support.search_set import QUESTIONS, SearchSet, search_set
from benchmarks.support.wiki_index import wiki_index

TARGET: Final = 0.96


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run the comparison; returns one row for each method and setting, and the headline."""
    faiss.omp_set_num_threads(1)
    data = search_set(quick)
    methods = [*ours(data), *peers(data)]
    repetitions = 2 if quick else 5
    print(
        f"{len(data.vectors)} x {data.vectors.shape[1]} passages, {len(data.queries)} questions, "
        f"k {K}, one core, CPU time, {repetitions} repetitions; FAISS {faiss.__version__}"
    )
    rows = _measured(methods, data, repetitions)
    firsts, seconds = _chained(quick)
    follow_up = SearchSet(data.vectors, seconds)
    begun = list(begun_with(follow_up, firsts))
    seeded = _measured(begun, follow_up, repetitions)
    for row, method in zip(seeded, begun, strict=True):
        row["compared"] = method.share_compared(seconds)
        print(f"{row['method']:<24} compares {row['compared']:.4f} of all coordinates")
    settings = {"k": K, "target": TARGET, "questions": len(data.queries), "quick": quick}
    headline = {**_headline(methods, rows), **_seed_headline(seeded)}
    return {"settings": settings, "rows": [*rows, *seeded], "headline": headline}


def prepare(quick: bool) -> None:
    """Embed the questions and build the peers' graphs, so that a run only measures."""
    for _ in peers(search_set(quick)):
        pass
    _chained(quick)


def _measured(methods: Sequence[Method], data: SearchSet, repetitions: int) -> list[dict[str, Any]]:
    """Search with every method and setting in turns; return and print a row for each."""
    for _ in range(repetitions):
        for method in methods:
            for setting in method.settings:
                started_s = time.process_time()
                method.labels[setting] = method.search(data.queries, setting)
                taken_s = time.process_time() - started_s
                method.seconds.setdefault(setting, []).append(taken_s)
    nearest = data.nearest(K)
    rows = [row for method in methods for row in method.rows(nearest)]
    for row in rows:
        print(
            f"{row['method']:<24} {row['setting']:>4}  recall {row['recall']:.4f}  "
            f"{row['qps']:9.0f} queries/s"
        )
    return rows


def _chained(quick: bool) -> tuple[Vectors, Vectors]:
    """Return the first and the second questions of chains, [n, d] each."""
    pairs = itertools.islice(chains(wiki_index(quick).multihop), QUESTIONS)
    vectors = text_vectors([text for pair in pairs for text in pair])
    return np.ascontiguousarray(vectors[0::2]), np.ascontiguousarray(vectors[1::2])


def _headline(methods: list[Method], rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times as fast the default is at the target recall, and the exact mode."""
    at = {method.name: qps_at(TARGET, _of(rows, method.name)) for method in methods}
    headline = {}
    for name, peer in (
        ("x_ivfflat", "FAISS IVFFlat"),
        ("x_hnswlib", "hnswlib"),
        ("x_faiss_hnsw", "FAISS HNSW"),
        ("x_usearch", "usearch"),
    ):
        ours, theirs = at["heddle default"], at.get(peer)
        if ours and theirs:
            headline[f"{name}_at_096"] = round(ours / theirs, 3)
        else:
            print(f"{name}_at_096: left out, as not both reach recall {TARGET}")
    [exact], [shared] = _of(rows, "heddle exact"), _of(rows, "heddle lists, exact")
    [product], flat = _of(rows, "FAISS Flat"), _of(rows, "FAISS IVFFlat")[-1]
    headline["panorama_x"] = round(exact["qps"] / flat["qps"], 3)
    headline["panorama_x_gemm"] = round(exact["qps"] / product["qps"], 3)
    headline["shared_x"] = round(shared["qps"] / flat["qps"], 3)
    headline["panorama_equal_sets"] = exact["equal_sets"]
    return headline


def _of(rows: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["method"] == method]


def _seed_headline(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    unseeded, seeded, best = rows
    return {
        "seeded_x": round(seeded["qps"] / unseeded["qps"], 3),
        "best_seed_x": round(best["qps"] / unseeded["qps"], 3),
        "seeded_compared": round(seeded["compared"] / unseeded["compared"], 4),
        "best_seed_compared": round(best["compared"] / unseeded["compared"], 4),
    }
