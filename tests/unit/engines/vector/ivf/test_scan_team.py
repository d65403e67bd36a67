"""Several threads find what one finds, in any order of lists."""

import os
import threading
import time

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.vector.ivf import scan_team
from heddle.engines.vector.ivf.list_memory import ListMemory
from heddle.engines.vector.ivf.scan_team import ScanTeam
from heddle.engines.vector.ivf.scanner import empty_heaps
from heddle.engines.vector.kernels.shared_scan import scan_shared
from heddle.engines.vector.kernels.sum_order import SumOrder
from heddle.kernels.borrowed_cores import BorrowedCores
from tests.helpers.logged import logged
from tests.helpers.server_state import eventually

pytestmark = pytest.mark.numerics

NLIST = 7
BITS = np.zeros(0, np.uint8)
RNG = np.random.default_rng(0)
VECTORS = np.repeat(RNG.standard_normal((300, 8), np.float32), 3, axis=0)  # each thrice: ties
QUERIES = RNG.standard_normal((5, 8), np.float32)
INDEX = faiss.IndexIVFFlat(faiss.IndexFlatL2(8), 8, NLIST)
INDEX.cp.min_points_per_centroid = 1
INDEX.train(VECTORS)
INDEX.add(VECTORS)
MEMORY = ListMemory(INDEX)
MEMORY.locate(np.arange(NLIST))


def scan(lists, distances, labels):
    places = MEMORY.codes, MEMORY.ids, MEMORY.sizes
    scan_shared(*places, BITS, QUERIES, lists, distances, labels, int(SumOrder.AVX2))


def in_order(distances, labels):
    order = np.lexsort((labels, distances), axis=1)
    return [np.take_along_axis(values, order, 1).tolist() for values in (distances, labels)]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(scan_team, "BLOCK_BYTES", 2_000)


def lent(is_lent=lambda: True):
    cores = BorrowedCores()
    cores.begin(is_lent, tuple(sorted(os.sched_getaffinity(0)))[:2])
    return cores


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("own", [1, 3])
@pytest.mark.parametrize("cores_are_lent", [False, True])
@pytest.mark.parametrize("topk", [1, 4, 40])
def test_hits_are_those_of_one_thread(own, cores_are_lent, topk):
    lists = np.tile(np.arange(NLIST), (5, 1))
    lists[2, ::2] = -1
    alone, together = empty_heaps(5, topk), empty_heaps(5, topk)
    team = ScanTeam(own, lent() if cores_are_lent else BorrowedCores())
    for part in np.array_split(lists, 2, axis=1):  # the second finds heaps that hold something
        scan(part, *alone)
        team.scan(scan, MEMORY.bytes_of, part, *together)
        assert in_order(*together) == in_order(*alone)
        assert (together[0][:, 0] == together[0].max(axis=1)).all()  # still heaps


@given(data=st.data(), topk=st.integers(1, 12))
@settings(max_examples=30)
def test_whoever_takes_which_lists(data, topk):
    """Threads take lists in any order, and stop when cores are no longer lent."""
    drawn = data.draw(st.lists(st.booleans(), min_size=40, max_size=40))
    answers = iter(drawn)
    team = ScanTeam(data.draw(st.integers(1, 2)), lent(lambda: next(answers, False)))
    lists = np.tile(data.draw(st.permutations(range(NLIST))), (5, 1))
    alone, together = empty_heaps(5, topk), empty_heaps(5, topk)
    scan(lists, *alone)
    before, scan_team.BLOCK_BYTES = scan_team.BLOCK_BYTES, 2_000
    try:
        team.scan(scan, MEMORY.bytes_of, lists, *together)
    finally:
        scan_team.BLOCK_BYTES = before
    assert in_order(*together) == in_order(*alone)


@pytest.mark.usefixtures("small_blocks")
def test_lent_cores_are_used_and_given_back():
    took: dict[str, list[tuple[int, ...]]] = {}
    first, are_lent = threading.Event(), threading.Event()
    are_lent.set()

    def noting(lists, distances, labels):
        name = threading.current_thread().name
        took.setdefault(name, []).append(tuple(sorted(os.sched_getaffinity(0))))
        if name.startswith("guest"):
            are_lent.clear()
            first.set()
        else:
            first.wait(10)
        scan(lists, distances, labels)

    cores = lent(are_lent.is_set)
    cores.cpus = cores.cpus[:1]
    team = ScanTeam(1, cores)
    lists = np.tile(np.arange(NLIST), (5, 1))
    team.scan(noting, MEMORY.bytes_of, lists, *empty_heaps(5, 3))
    guest = took.pop(next(name for name in took if name.startswith("guest")))
    assert guest == [cores.cpus], "one block, on the cores that were lent"


@pytest.mark.usefixtures("small_blocks")
def test_what_fails_in_another_thread_fails_the_scan():
    took_one = threading.Event()

    def failing(lists, distances, labels):
        if threading.current_thread() is not threading.main_thread():
            took_one.set()
            raise MemoryError("no room")
        took_one.wait(10)
        scan(lists, distances, labels)

    lists = np.tile(np.arange(NLIST), (5, 1))
    with pytest.raises(MemoryError, match="no room"):
        ScanTeam(3).scan(failing, MEMORY.bytes_of, lists, *empty_heaps(5, 3))


@pytest.mark.usefixtures("small_blocks")
def test_after_a_failure_no_thread_scans_on():
    took_one, scanning = threading.Event(), []

    def failing(lists, distances, labels):
        if threading.current_thread() is threading.main_thread():
            took_one.wait(10)
            raise MemoryError("no room")
        scanning.append(True)
        took_one.set()
        time.sleep(0.05)
        scanning.pop()

    lists = np.tile(np.arange(NLIST), (5, 1))
    with pytest.raises(MemoryError, match="no room"):
        ScanTeam(3).scan(failing, MEMORY.bytes_of, lists, *empty_heaps(5, 3))
    assert scanning == []


@pytest.mark.usefixtures("small_blocks")
def test_a_core_that_is_gone_is_done_without():
    cores = BorrowedCores()
    cores.begin(lambda: True, (10_000,))
    lists = np.tile(np.arange(NLIST), (5, 1))
    alone = empty_heaps(5, 3)
    scan(lists, *alone)
    team = ScanTeam(1, cores)
    with logged(scan_team.log) as lines:
        for _ in range(2):
            found = empty_heaps(5, 3)
            team.scan(scan, MEMORY.bytes_of, lists, *found)
            assert in_order(*found) == in_order(*alone)
    assert len(lines) == 1
    assert "go on without threads called 'guest'" in lines[0]


@pytest.mark.usefixtures("small_blocks")
def test_threads_that_cannot_start_are_done_without(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    lists = np.tile(np.arange(NLIST), (5, 1))
    alone, found = empty_heaps(5, 3), empty_heaps(5, 3)
    scan(lists, *alone)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with logged(scan_team.log) as lines:
        ScanTeam(3).scan(scan, MEMORY.bytes_of, lists, *found)
    assert in_order(*found) == in_order(*alone)
    assert "can't start new thread" in lines[0]


def test_threads_end_with_their_team():
    before = set(threading.enumerate())
    team = ScanTeam(3)
    lists = np.tile(np.arange(NLIST), (5, 1))
    for _ in range(2):
        team.scan(
            scan, lambda columns: np.full(columns.shape[1], 8 << 20), lists, *empty_heaps(5, 3)
        )
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2
    del team
    eventually(lambda: not any(thread.is_alive() for thread in threads))


def test_short_scans_wake_nobody():
    lists = np.tile(np.arange(NLIST), (5, 1))
    names = []

    def noting(lists, distances, labels):
        names.append(threading.current_thread())
        scan(lists, distances, labels)

    ScanTeam(3).scan(noting, MEMORY.bytes_of, lists, *empty_heaps(5, 3))
    assert names == [threading.current_thread()]


def test_a_column_is_as_long_as_its_reading_or_its_comparisons():
    sizes = np.array([INDEX.invlists.list_size(i) for i in range(3)])
    one_row = np.array([[0, 1, 2, -1]])
    assert MEMORY.bytes_of(one_row).tolist() == [*(sizes * 32).tolist(), 0]
    shared = np.zeros((8, 1), np.int64)
    assert MEMORY.bytes_of(shared).tolist() == [int(sizes[0]) * 2 * 32]
