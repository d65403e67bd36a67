"""Commands for a lane: those of a turn leave together; for one that takes none they wait."""

import socket
from collections.abc import Iterator

import pytest

from heddle.core.commands import Cancel, LoadKv
from heddle.core.payloads import PrefillPayload
from heddle.hosts import outbox
from heddle.hosts.messages import ToEngine
from heddle.hosts.outbox import Outbox
from heddle.hosts.wire.channel import Channel


class Turn:
    """Says whether there is one, and counts who asked for its end."""

    def __init__(self) -> None:
        self.is_on, self.asked = False, 0

    def gather(self) -> bool:
        self.asked += self.is_on
        return self.is_on


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    left, right = map(Channel, socket.socketpair())
    yield left, right
    left.close()
    right.close()


def cancel(number: int) -> ToEngine:
    return ToEngine(0, Cancel(number))


def test_what_waits_is_bounded_and_cancels_always_wait(
    monkeypatch: pytest.MonkeyPatch, turn: Turn
) -> None:
    monkeypatch.setattr(outbox, "BACKLOG_MAX", 2)
    waiting = Outbox("llm", lambda: None, turn.gather)
    load = ToEngine(0, LoadKv(7, PrefillPayload(())))
    assert [waiting.put(load) for _ in range(2)] == ["", ""]
    assert "lane llm does not read: 2 commands wait" in waiting.put(load)
    assert waiting.put(cancel(1)) == ""


def test_a_command_outside_a_turn_leaves_at_once(ends: tuple[Channel, Channel], turn: Turn) -> None:
    sending = Outbox("llm", lambda: None, turn.gather)
    sending.connect(ends[0])
    sending.put(cancel(1))
    assert ends[1].receive() == [cancel(1)]


def test_the_commands_of_a_turn_leave_together_in_order(
    ends: tuple[Channel, Channel], turn: Turn
) -> None:
    sending = Outbox("llm", lambda: None, turn.gather)
    sending.connect(ends[0])
    turn.is_on = True
    for number in range(200):
        assert sending.put(cancel(number)) == ""
    assert turn.asked == 1
    assert ends[1].receive() == []
    turn.is_on = False
    sending.flush()
    assert ends[1].receive() == [cancel(number) for number in range(200)]
    sending.put(cancel(200))
    assert ends[1].receive() == [cancel(200)]


def test_more_than_a_turn_gathers_does_not_wait_for_its_end(
    ends: tuple[Channel, Channel], turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "GATHERED_MAX", 3)
    sending = Outbox("llm", lambda: None, turn.gather)
    sending.connect(ends[0])
    turn.is_on = True
    for number in range(5):
        sending.put(cancel(number))
    assert ends[1].receive() == [cancel(0), cancel(1), cancel(2)]
    sending.flush()
    assert ends[1].receive() == [cancel(3), cancel(4)]


def test_what_cannot_be_pickled_is_refused_and_its_neighbours_leave(
    ends: tuple[Channel, Channel], turn: Turn
) -> None:
    sending = Outbox("llm", lambda: None, turn.gather)
    sending.connect(ends[0])
    turn.is_on = True
    sending.put(cancel(1))
    assert "can't be sent to lane llm" in sending.put(ToEngine(0, lambda: None))
    sending.put(cancel(2))
    sending.flush()
    assert ends[1].receive() == [cancel(1), cancel(2)]


def test_what_was_gathered_for_a_lane_that_is_gone_is_dropped(
    ends: tuple[Channel, Channel], turn: Turn
) -> None:
    sending = Outbox("llm", lambda: None, turn.gather)
    sending.connect(ends[0])
    turn.is_on = True
    sending.put(cancel(1))
    ends[1].close()
    sending.flush()  # the lane's thread sees it, too
    sending.disconnect()
    sending.put(cancel(2))
    sending.flush()
    turn.is_on = False
    assert sending.send_next() is None


def test_a_turn_that_the_socket_does_not_take_goes_on_later(
    ends: tuple[Channel, Channel], turn: Turn
) -> None:
    rings: list[int] = []
    sending = Outbox("llm", lambda: rings.append(1), turn.gather)
    sending.connect(ends[0])
    turn.is_on = True
    large = [ToEngine(0, Cancel(bytes([number]) * 60_000)) for number in range(40)]
    for message in large:
        sending.put(message)
    sending.flush()
    assert rings
    turn.is_on = False
    sending.put(cancel(1))  # behind them
    received: list[object] = []
    while len(received) < len(large) + 1:
        received += ends[1].receive()
        sending.send_next()
    assert received == [*large, cancel(1)]
