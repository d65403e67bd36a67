"""Messages arrive whole and in order, big arrays too, and no descriptor is left behind."""

import math
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.core.cost_snapshot import CostSnapshot
from heddle.core.frames import Done, Failed, Frame, Load, Progress
from heddle.core.results import Ingested
from heddle.hosts.wire.channel import Channel
from heddle.hosts.wire.framing import ChannelClosed
from heddle.hosts.wire.shared_memory import INLINE_BYTES_MAX, encode
from tests.helpers.open_files import check_none_left, open_files

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    before = open_files()
    left, right = map(Channel, socket.socketpair())
    yield left, right
    left.close()
    right.close()
    check_none_left(before)


def receive_all(channel: Channel, count: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        messages += channel.receive(wait_s=math.inf)
    return messages


def test_small_messages_arrive_in_order(pair: Pair) -> None:
    left, right = pair
    for i in range(100):
        left.send(("message", i))
    assert receive_all(right, 100) == [("message", i) for i in range(100)]
    assert right.receive() == []


def test_the_default_frame_can_be_sent(pair: Pair) -> None:
    left, right = pair
    left.send(Frame("llm", 1, 0.5, ()))
    (frame,) = receive_all(right, 1)
    assert isinstance(frame, Frame)
    assert (frame.lane, dict(frame.features)) == ("llm", {})


def test_a_full_frame_arrives_as_it_was(pair: Pair) -> None:
    left, right = pair
    frame = Frame(
        "llm",
        3,
        0.5,
        (Progress(5, (17,), "a", fraction=0.5), Failed(6, "no"), Done(7, Ingested(1, 2))),
        {"call": 1.0},
        Load(1, 2, 3),
        CostSnapshot("llm", 4, {"call": 0.1}, 4),
        True,
        9,
    )
    left.send(frame)
    (got,) = receive_all(right, 1)
    assert isinstance(got, Frame)
    for name in Frame.__slots__:
        if name != "events":
            assert getattr(got, name) == getattr(frame, name), name
    progress, *others = got.events
    assert isinstance(progress, Progress)
    assert (progress.token_ids, progress.text, progress.fraction) == ((17,), "a", 0.5)
    assert tuple(others) == frame.events[1:]


def test_big_arrays_travel_beside_the_socket(pair: Pair) -> None:
    left, right = pair
    big = np.arange(INLINE_BYTES_MAX, dtype=np.float32).reshape(4, -1)
    small = np.arange(7)
    packet = encode((big, small))
    assert packet.fd >= 0
    os.close(packet.fd)
    assert len(packet.data) < 1000
    for _ in range(20):
        left.send((big, small, big[::2]))
        ((first, second, third),) = receive_all(right, 1)
        np.testing.assert_array_equal(first, big)
        np.testing.assert_array_equal(second, small)
        np.testing.assert_array_equal(third, big[::2])
        first[0, 0] = -1  # the receiver's own copy
    assert big[0, 0] == 0


def test_more_than_the_socket_holds_goes_through_in_pieces(pair: Pair) -> None:
    left, right = pair
    parts = [bytes([i]) * 60_000 for i in range(100)]
    packet = encode(parts[:1])
    assert packet.fd == -1
    received: list[object] = []
    for part in parts:
        while left.has_tail:
            received += right.receive()
            left.flush()
        left.push(part)
    while left.has_tail or len(received) < len(parts):
        received += right.receive()
        left.flush()
    assert received == parts


def test_kept_messages_leave_together_and_each_with_its_own_buffers(pair: Pair) -> None:
    left, right = pair
    arrays = [np.full(INLINE_BYTES_MAX, number, np.uint8) for number in range(3)]
    large = [np.concatenate([array, array]) for array in arrays]  # these travel beside the socket
    messages = [large[0], "first", "second", large[1], large[2], "third"]
    for message in messages:
        left.keep(message)
    assert right.receive() == []
    left.flush()
    assert not left.has_tail
    for sent, got in zip(messages, receive_all(right, len(messages)), strict=True):
        np.testing.assert_array_equal(got, sent)


def test_a_long_pickle_does_not_fill_the_socket(pair: Pair) -> None:
    left, right = pair
    texts = ["long text " * 100_000, "another " * 100_000]
    for text in texts:
        left.push((text, np.ones(INLINE_BYTES_MAX)))
        assert not left.has_tail
    for text, message in zip(texts, receive_all(right, 2), strict=True):
        got, ones = message
        assert got == text
        assert ones.sum() == INLINE_BYTES_MAX


def test_inline_encoding_needs_no_descriptor() -> None:
    packet = encode(("x" * 200_000, np.zeros(200_000)), inline=True)
    assert packet.fd == -1
    assert len(packet.data) > 1_800_000


def test_unread_descriptors_are_closed(pair: Pair) -> None:
    left, right = pair
    left.push(np.zeros(INLINE_BYTES_MAX))
    left.push(np.zeros(INLINE_BYTES_MAX))
    assert right._chunk  # the fixture checks that closing with unread messages leaks nothing


def test_the_end_comes_after_everything_that_was_sent(pair: Pair) -> None:
    left, right = pair
    left.send("last words")
    left.close()
    assert right.receive(wait_s=math.inf) == ["last words"]
    with pytest.raises(ChannelClosed):
        right.receive(wait_s=math.inf)
    with pytest.raises(ChannelClosed):
        right.send("anyone?")


def test_what_pickle_refuses_is_raised_and_nothing_is_half_sent(pair: Pair) -> None:
    left, right = pair
    with pytest.raises(TypeError, match="lock"):
        left.push(("x" * 100_000, threading.Lock()))
    left.push("next")
    assert receive_all(right, 1) == ["next"]


def test_two_threads_may_send(pair: Pair) -> None:
    left, right = pair

    def talk(who: int) -> None:
        for i in range(200):
            left.send((who, i))

    threads = [threading.Thread(target=talk, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    messages = receive_all(right, 400)
    for thread in threads:
        thread.join()
    for who in range(2):
        assert [m for m in messages if m[0] == who] == [(who, i) for i in range(200)]


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=50),
            st.integers(0, 400_000).map(lambda n: b"z" * n),
            st.integers(0, 60_000).map(lambda n: np.arange(n, dtype=np.float64)),
        ),
        max_size=8,
    )
)
def test_any_sequence_of_messages_survives(messages: list[object]) -> None:
    left, right = map(Channel, socket.socketpair())

    def talk() -> None:
        for message in messages:
            left.send(message)

    sender = threading.Thread(target=talk)
    sender.start()
    received = receive_all(right, len(messages))
    sender.join()
    left.close()
    right.close()
    for sent, got in zip(messages, received, strict=True):
        np.testing.assert_array_equal(got, sent)


def test_a_bell_ends_a_wait_and_messages_still_arrive(pair: Pair) -> None:
    left, right = pair
    ring = right.bell()
    thread = threading.Thread(target=ring)
    thread.start()
    assert right.receive(wait_s=math.inf) == []
    thread.join()
    for _ in range(3):
        ring()
    left.send("after")
    assert receive_all(right, 1) == ["after"]
