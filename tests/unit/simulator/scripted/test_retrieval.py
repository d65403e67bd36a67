import random

import numpy as np
import pytest

from heddle.simulator.device import SimulatedDevice
from heddle.simulator.scripted.retrieval import (
    ScriptedEmbeddingWorker,
    ScriptedPassages,
    ScriptedScanner,
)
from heddle.simulator.timeline import Timeline

COSTS_S = {
    "call": 1.0,
    "lists": 0.1,
    "ridden": 0.02,
    "scans": 0.0,
    "rows": 0.5,
    "tokens": 0.01,
    "texts": 0.0,
}
NPROBE = 40


def device():
    return SimulatedDevice(Timeline(), random.Random(0), jitter_share=0.0)


def vectors(*texts):
    worker = ScriptedEmbeddingWorker(device(), COSTS_S)
    return worker.embed([one.token_ids for one in worker.tokenize(texts)])


def found(queries, parts, topk=5, *, shares_lists=False):
    """Search in this number of equal parts; return the labels of each row."""
    scanner = ScriptedScanner(
        device(), COSTS_S, nlist=64, nprobe_default=8, shares_lists=shares_lists
    )
    queries = scanner.prepared(queries)
    lists = scanner.coarse(queries, NPROBE)
    distances = np.full((len(queries), topk), np.inf, np.float32)
    labels = np.full((len(queries), topk), -1, np.int64)
    for part in np.split(lists, parts, axis=1):
        scanner.scan(queries, part, distances, labels)
    return labels.tolist()


def test_a_text_takes_its_tokens() -> None:
    spent = device()
    worker = ScriptedEmbeddingWorker(spent, COSTS_S)
    worker.embed([one.token_ids for one in worker.tokenize(["q1*20", "q2*30"])])
    assert spent.take_spent_s() == pytest.approx(1.0 + 0.01 * 2 * 32)


@pytest.mark.parametrize("shares_lists", [False, True])
def test_a_search_finds_the_same_in_one_part_or_many(shares_lists) -> None:
    queries = vectors("q1~30*20", "q2~30*20 w0 w1")
    in_one = found(queries, 1, shares_lists=shares_lists)
    assert in_one == found(queries, 8, shares_lists=shares_lists) == found(queries, 1)


def test_a_list_that_two_queries_share_is_read_once() -> None:
    spent = device()
    scanner = ScriptedScanner(spent, COSTS_S, nlist=64, nprobe_default=8, shares_lists=True)
    queries = scanner.prepared(vectors("q1*20", "q2*20"))
    scanner.coarse(queries, 10)
    spent.take_spent_s()
    heaps = np.full((2, 5), np.inf, np.float32), np.full((2, 5), -1, np.int64)
    scanner.scan(queries, np.array([[3, 5, -1], [3, -1, 9]]), *heaps)
    assert spent.take_spent_s() == pytest.approx(1.0 + 3 * 0.1 + 0.02)


def test_lists_take_time() -> None:
    spent = device()
    scanner = ScriptedScanner(spent, COSTS_S, nlist=64, nprobe_default=8)
    queries = scanner.prepared(vectors("q1*20"))
    lists = scanner.coarse(queries, 10)
    heaps = np.full((1, 5), np.inf, np.float32), np.full((1, 5), -1, np.int64)
    scanner.scan(queries, lists, *heaps)
    assert spent.take_spent_s() == pytest.approx(0.5 + 1.0 + 10 * 0.1)


def test_queries_of_one_question_share_what_their_texts_say() -> None:
    plain, equal, other = found(vectors("q1~0*20", "q1~0*20 w0", "q1~100*20 w0"), 1)
    assert plain == equal
    assert set(plain).isdisjoint(other)


def test_a_query_without_further_words_finds_the_questions_own() -> None:
    assert found(vectors("q1~100*20"), 1) == found(vectors("q1~0*20"), 1)


def test_questions_find_other_passages() -> None:
    one, other = found(vectors("q1*20", "q2*20"), 1)
    assert set(one).isdisjoint(other)


def test_a_passage_has_one_of_the_lengths() -> None:
    (first,) = ScriptedPassages((80, 120)).passages([17])
    assert first.text in ("c17*80", "c17*120")
