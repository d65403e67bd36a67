"""Two sides with one secret make one pair of keys; all others get nothing but a closed socket."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.hosts.wire.handshake import MAGIC, NONCE_BYTES, answer, greet
from heddle.hosts.wire.sealed import SealState

SECRET = b"s" * 32
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


class Answering:
    """The side that was connected to, in a thread; hangs up when it is through or refuses."""

    def __init__(self, sock: socket.socket, secret: bytes, wait_s: float = 5.0) -> None:
        self.state: SealState | None = None
        self.problem = ""
        self._sock, self._secret, self._wait_s = sock, secret, wait_s
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.state = answer(self._sock, self._secret, self._wait_s)
        except OSError as error:
            self.problem = str(error)
            self._sock.close()

    def result(self) -> SealState | None:
        self._thread.join()
        return self.state


def test_both_sides_get_the_same_two_keys(pair: Pair) -> None:
    answering = Answering(pair[1], SECRET)
    mine = greet(pair[0], SECRET)
    theirs = answering.result()
    assert theirs is not None
    assert (mine.sending_key, mine.receiving_key) == (theirs.receiving_key, theirs.sending_key)
    assert mine.sending_key != mine.receiving_key
    assert SECRET not in (mine.sending_key, mine.receiving_key)


def test_another_secret_is_refused_by_the_side_that_connects(pair: Pair) -> None:
    answering = Answering(pair[1], b"t" * 32)
    with pytest.raises(ConnectionError, match="it has another secret"):
        greet(pair[0], SECRET)
    pair[0].close()
    assert answering.result() is None


def attempt(write: Callable[[socket.socket], None]) -> Answering:
    """Return what the answering side makes of a stranger, who hangs up afterwards."""
    left, right = socket.socketpair()
    answering = Answering(right, SECRET)
    with left:
        write(left)
        left.shutdown(socket.SHUT_WR)
        answering.result()
    return answering


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_no_bytes_of_a_stranger_pass(data: bytes) -> None:
    assert attempt(lambda sock: sock.sendall(data)).state is None
    assert attempt(lambda sock: sock.sendall(MAGIC + data)).state is None


def test_a_recorded_visit_is_of_no_use(pair: Pair) -> None:
    recorded = bytearray()

    class Recorder(socket.socket):
        def sendall(self, data: bytes, flags: int = 0) -> None:  # type: ignore[override]
            recorded.extend(data)
            super().sendall(data, flags)

    with Recorder(fileno=pair[0].detach()) as visitor:
        answering = Answering(pair[1], SECRET)
        greet(visitor, SECRET)
        assert answering.result() is not None
    again = attempt(lambda sock: sock.sendall(recorded))
    assert (again.state, again.problem) == (None, "it has another secret")


def test_the_servers_own_proof_does_not_pass_for_a_clients() -> None:
    def mirror(sock: socket.socket) -> None:
        sock.sendall(MAGIC + b"n" * NONCE_BYTES)
        told = sock.recv(64, socket.MSG_WAITALL)
        sock.sendall(told[32:])

    again = attempt(mirror)
    assert (again.state, again.problem) == (None, "it has another secret")


def test_who_says_nothing_is_hung_up_on(pair: Pair) -> None:
    answering = Answering(pair[1], SECRET, wait_s=0.05)
    assert answering.result() is None
    assert "took too long" in answering.problem
    assert pair[0].recv(1) == b""


def test_an_agent_that_says_nothing_is_not_waited_for(pair: Pair) -> None:
    with pytest.raises(ConnectionError, match="took too long"):
        greet(pair[0], SECRET, wait_s=0.05)
