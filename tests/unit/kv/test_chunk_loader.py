"""Loads run aside, always end, and their lengths are learnt."""

import threading
from queue import SimpleQueue

import pytest

from heddle.kv.chunk_loader import ChunkLoader
from heddle.kv.load_times import REMEMBERED_S


class StepClock:
    """Advances by what a read is said to take."""

    def __init__(self):
        self.time_s = 0.0

    def now_s(self):
        return self.time_s


def loader(read, clock=None, threads=1, bytes_per_s=None):
    done = SimpleQueue()
    it = ChunkLoader(read, lambda *end: done.put(end), clock or StepClock(), threads, bytes_per_s)
    return it, done


def test_a_load_ends_with_its_result_or_without_one(caplog):
    def read(job):
        if job == "broken":
            raise RuntimeError("the library is broken")
        return None if job == "gone" else job.upper()

    it, done = loader(read)
    ends = []
    for job in ("fine", "gone", "broken"):
        it.start(job, 10)
        ends.append(done.get(timeout=30)[:3])
    it.close()
    assert ends == [("fine", 10, "FINE"), ("gone", 10, None), ("broken", 10, None)]
    assert "the library is broken" in caplog.text


def test_it_learns_how_long_reads_take():
    clock = StepClock()

    def read(nbytes):
        clock.time_s += nbytes * 1e-7
        return True

    it, done = loader(read, clock)
    before = it.predicted_s([5_000_000])[0]
    it.start(1_000_000, 1_000_000)
    assert done.get(timeout=30)[3] == pytest.approx(0.1)
    it.close()
    assert before < 0.02  # the first guess: a fast disk
    assert it.predicted_s([5_000_000]) == pytest.approx([0.5], rel=0.4)  # a call takes nothing here


def test_a_rehearsal_reads_at_once_and_tells_nobody():
    clock = StepClock()
    together = threading.Barrier(3, timeout=30)
    lock = threading.Lock()

    def read(job):
        together.wait()
        with lock:
            clock.time_s += 0.1
        return True

    it, done = loader(read, clock, threads=3)
    it.rehearse(dict.fromkeys("abc", 1000))
    it.close()
    assert done.empty()
    assert it.predicted_s([1000] * 3) == pytest.approx([0.1, 0.2, 0.3])


def test_a_rehearsal_of_nothing_or_of_what_can_not_be_read_teaches_nothing():
    it, _ = loader(lambda job: None)
    before = it.predicted_s([1000])
    it.rehearse({})
    it.rehearse({"gone": 1000})
    it.close()
    assert it.predicted_s([1000]) == before
    assert it.is_in_the_dark


def test_failed_loads_teach_nothing():
    it, done = loader(lambda job: None)
    before = it.predicted_s([1000])
    it.start("x", 1000)
    done.get(timeout=30)
    it.close()
    assert it.predicted_s([1000]) == before


def test_it_is_in_the_dark_until_a_read_has_told_and_again_after_a_while():
    """Else a disk that was slow once would never be asked again, and never found fast."""
    clock, gate = StepClock(), threading.Event()
    it, done = loader(lambda job: gate.wait(30), clock)
    assert it.is_in_the_dark
    it.start("x", 1000)
    assert not it.is_in_the_dark, "it will tell"
    gate.set()
    done.get(timeout=30)
    assert not it.is_in_the_dark
    clock.time_s += 1.1 * REMEMBERED_S
    assert it.is_in_the_dark
    it.close()


def test_a_declared_disk_is_known():
    it, _ = loader(lambda job: True, bytes_per_s=1e6)
    it.close()
    assert not it.is_in_the_dark


def test_what_waits_is_part_of_the_prediction():
    gate = threading.Event()
    it, done = loader(lambda job: gate.wait(30), bytes_per_s=None)
    [alone] = it.predicted_s([1000])
    for job in "xyz":
        it.start(job, 1000)
    assert it.predicted_s([1000]) == pytest.approx([4 * alone])
    gate.set()
    for _ in range(3):
        done.get(timeout=30)
    it.close()


def test_each_waits_for_those_before_it():
    it, _ = loader(lambda job: True, bytes_per_s=1e6)
    seconds = it.predicted_s([1_000_000, 2_000_000, 1_000_000])
    it.close()
    assert seconds == pytest.approx([1.0, 3.0, 4.0], rel=0.01)


def test_the_time_left_of_a_read_runs_down_and_ends_with_it():
    gate, clock = threading.Event(), StepClock()
    it, done = loader(lambda job: gate.wait(30), clock)
    [predicted_s] = it.predicted_s([5_000_000])
    it.start("x", 5_000_000)
    assert it.left_s("x") == pytest.approx(predicted_s)
    clock.time_s += predicted_s / 2
    assert it.left_s("x") == pytest.approx(predicted_s / 2)
    clock.time_s += predicted_s
    assert it.left_s("x") == 0.0  # overdue
    gate.set()
    done.get(timeout=30)
    it.close()
    assert it.left_s("x") == it.left_s("never asked for") == 0.0


def test_a_declared_rate_is_the_first_guess_and_reads_wait_for_it():
    it, done = loader(lambda job: True, bytes_per_s=1e6)
    assert it.predicted_s([10_000_000]) == pytest.approx([10.0], rel=0.01)
    it.start("x", 10_000_000)  # ten seconds on the declared disk
    it.close()  # wakes the throttle
    assert done.get(timeout=30)[2] is True


def test_closing_gives_up_what_has_not_begun():
    gate, began = threading.Event(), threading.Event()
    reads = []

    def read(job):
        reads.append(job)
        began.set()
        return gate.wait(30)

    it, done = loader(read)
    for job in "abc":
        it.start(job, 1)
    assert began.wait(30)
    closing = threading.Thread(target=it.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert not closing.is_alive()
    assert done.get(timeout=30)[0] == "a"
    assert "c" not in reads or len(reads) == 3
