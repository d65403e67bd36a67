"""Reads are timed as they share a disk, and what was measured long ago is measured again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.kv.load_times import BYTES_PER_S_GUESS, CALL_GUESS_S, REMEMBERED_S, LoadTimes

MB = 1_000_000


def times(threads=1, bytes_per_s=None):
    return LoadTimes(threads, bytes_per_s, 0.0)


def read(it, *ends, start_s=0.0, nbytes=MB):
    """Begin as many reads at once as there are ends [s]."""
    for _ in ends:
        it.begin(start_s)
    for end_s in ends:
        it.end(nbytes, end_s, is_read=True)


def read_in_turns(it, count, rate, threads, nbytes=MB):
    """Keep `threads` threads reading from a disk that serves them in turns; return the end [s]."""
    now_s = 0.0
    for _ in range(threads):
        it.begin(0.0)
    for done in range(1, count + 1):
        now_s += nbytes / rate
        it.end(nbytes, now_s, is_read=True)
        if done <= count - threads:
            it.begin(now_s)
    return now_s


def test_the_first_guess_is_a_fast_disk_and_a_declared_one_is_believed():
    guess_s = 3 * CALL_GUESS_S + 6 * MB / BYTES_PER_S_GUESS
    assert times().predict_s(3, 6 * MB) == pytest.approx(guess_s)
    assert times(bytes_per_s=1e6).predict_s(1, 10 * MB) == pytest.approx(10.0, rel=0.01)


@given(st.floats(1e-6, 1e3))
def test_one_measurement_is_enough(seconds):
    it = times()
    read(it, seconds)
    assert it.predict_s(1, MB) == pytest.approx(seconds, rel=1e-6)
    assert it.predict_s(5, 5 * MB) == pytest.approx(5 * seconds, rel=1e-6)


@given(st.lists(st.floats(0.01, 1.0), min_size=8, max_size=20))
def test_reads_of_unequal_length_are_foretold_by_their_sum(lengths_s):
    it = times()
    now_s = 0.0
    for length_s in lengths_s:
        read(it, now_s + length_s, start_s=now_s)
        now_s += length_s
    assert it.predict_s(8, 8 * MB) == pytest.approx(sum(lengths_s[-8:]))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [8, 9, 100])
def test_on_a_shared_disk_no_read_is_taken_for_as_slow_as_all_of_them(threads, count):
    it = times(threads)
    end_s = read_in_turns(it, count, rate=1e8, threads=threads)
    assert it.predict_s(count, count * MB) == pytest.approx(end_s, rel=0.01)


def test_on_a_disk_that_serves_several_as_fast_as_one_a_queue_ends_sooner():
    it = times(threads=2)
    for number in range(50):
        read(it, number + 0.01, number + 0.01, start_s=float(number))
    assert it.predict_s(6, 6 * MB) == pytest.approx(0.03, rel=0.01)


def test_a_read_that_was_timed_with_others_is_not_taken_for_instant():
    """A long one beside two short ones: when they were timed, it was nearly over."""
    it = times(threads=2)
    it.begin(0.0)  # the long one
    it.begin(0.0)
    it.end(MB, 0.5, is_read=True)
    it.begin(0.5)
    it.end(MB, 1.0, is_read=True)
    before_s = it.predict_s(1, MB)
    it.end(MB, 1.0 + 1e-6, is_read=True)
    assert it.predict_s(1, MB) == before_s == pytest.approx(0.5)


def test_a_failed_read_teaches_nothing_and_neither_does_what_ran_beside_it():
    it = times(threads=2)
    guess_s = it.predict_s(1, MB)
    it.begin(0.0)
    it.begin(0.0)
    it.end(MB, 1e-6, is_read=False)
    it.end(MB, 9.0, is_read=True)
    assert it.predict_s(1, MB) == guess_s
    assert it.is_stale(9.0)


def test_what_was_learnt_is_stale_in_time_and_then_replaced_by_one_read():
    it = times()
    assert it.is_stale(0.0)
    for second in range(100):
        read(it, second + 0.9, start_s=float(second))
    assert not it.is_stale(99.9 + REMEMBERED_S)
    later_s = 100.0 + REMEMBERED_S
    assert it.is_stale(later_s)
    assert it.predict_s(1, MB) == pytest.approx(0.9), "it is all that is known"
    read(it, later_s + 0.001, start_s=later_s)
    assert it.predict_s(1, MB) == pytest.approx(0.001)
    assert not it.is_stale(later_s + 0.001)


def test_a_disk_that_has_become_slower_is_noticed_while_it_is_used():
    it = times()
    for second in range(20):
        read(it, second + 0.01, start_s=float(second))
    for second in range(20, 24):
        read(it, second + 0.1, start_s=float(second))
    assert it.predict_s(1, MB) > 0.05
