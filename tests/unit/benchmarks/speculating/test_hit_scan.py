"""Recorded changes of hits are those of scanning one list after the other."""

import faiss
import numpy as np

from benchmarks.speculating.hit_scan import HitScan

HITS, LISTS = 3, 12


def test_a_pass_over_all_lists_records_what_each_question_would_find():
    draws = np.random.default_rng(3)
    vectors = draws.standard_normal((300, 8), dtype=np.float32)
    queries = draws.standard_normal((5, 8), dtype=np.float32)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(8), 8, 16, faiss.METRIC_L2)
    index.train(vectors)
    index.add_with_ids(vectors, np.arange(1_000, 1_300))
    lines: list[str] = []
    found = HitScan(index, queries, LISTS, HITS).changes(lines.append)
    for number, query in enumerate(queries):
        mine = slice(*found["starts"][number : number + 2].tolist())
        at, labels, squares = (found[name][mine] for name in ("at", "labels", "distances"))
        assert (np.diff(at) >= 0).all()
        for stop in range(1, LISTS + 1):
            seen = at < stop
            best = labels[seen][np.argsort(squares[seen])][:HITS]
            selector = faiss.SearchParametersIVF(nprobe=stop)
            expected = index.search(query[None], HITS, params=selector)[1][0]
            assert set(best) == set(expected[expected >= 0])
    assert not lines  # progress of few lists is not printed
