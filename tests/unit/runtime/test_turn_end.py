"""What is put off to the end of a thread's turn."""

import threading

import pytest

from heddle.runtime.turn_end import at_turn_end, turn


def test_what_is_put_off_is_done_at_the_end_in_order() -> None:
    done: list[int] = []
    with turn():
        assert at_turn_end(lambda: done.append(1))
        assert at_turn_end(lambda: done.append(2))
        assert not done
    assert done == [1, 2]


def test_nothing_is_put_off_without_a_turn_or_by_another_thread() -> None:
    done: list[str] = []
    assert not at_turn_end(lambda: done.append("without"))
    put_off: list[bool] = []
    with turn():
        other = threading.Thread(
            target=lambda: put_off.append(at_turn_end(lambda: done.append("another")))
        )
        other.start()
        other.join()
    assert put_off == [False]
    assert not done


def test_a_turn_that_fails_does_what_was_put_off() -> None:
    done: list[int] = []

    def fail() -> None:
        with turn():
            at_turn_end(lambda: done.append(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert done == [1]
    assert not at_turn_end(lambda: done.append(2))
