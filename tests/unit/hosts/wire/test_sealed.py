"""Sealed records: what was sent arrives whole; what anybody else wrote is never decoded."""

import pickle
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.hosts.wire import sealed
from heddle.hosts.wire.framing import ChannelBroken, MessageTooLarge
from heddle.hosts.wire.sealed import RECORD_BYTES_MAX, SEAL_BYTES, Sealed, SealState

HEAD_BYTES = 4
KEYS = SealState(b"a" * 32, b"b" * 32)
MESSAGES = st.lists(st.one_of(st.text(), st.binary(max_size=300), st.integers()), max_size=6)


def ends(message_bytes_max: int = 1 << 24) -> tuple[Sealed, Sealed]:
    there = SealState(KEYS.receiving_key, KEYS.sending_key)
    return Sealed(KEYS, message_bytes_max), Sealed(there, message_bytes_max)


def sent(end: Sealed, *messages: object) -> bytes:
    return b"".join(end.seal(end.encode(message).data) for message in messages)


def fed(end: Sealed, data: bytes, step: int = 1 << 20) -> list[Any]:
    got: list[Any] = []
    for at in range(0, len(data), step):
        got += end.feed(memoryview(data)[at : at + step], ())
    return got


@given(MESSAGES, st.integers(1, 400))
def test_messages_arrive_however_the_stream_is_cut(messages: list[object], step: int) -> None:
    left, right = ends()
    assert fed(right, sent(left, *messages), step) == messages
    assert right.state.received == left.state.sent == len(messages)


@given(MESSAGES.filter(bool), st.data())
def test_a_changed_byte_breaks_the_stream_before_it_is_decoded(
    messages: list[object], data: st.DataObject
) -> None:
    left, right = ends()
    parts = [sent(left, message) for message in messages]
    stream = bytearray(b"".join(parts))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= data.draw(st.integers(1, 255))
    whole = 0  # messages in front of the changed byte
    while at >= len(b"".join(parts[: whole + 1])):
        whole += 1
    got: list[object] = []
    try:
        for i in range(len(stream)):
            got += fed(right, bytes(stream[i : i + 1]))
    except ChannelBroken:
        with pytest.raises(ChannelBroken):  # and it stays broken
            fed(right, sent(left, "more"))
    assert got == messages[:whole]


@given(st.lists(st.integers(), min_size=3, max_size=6, unique=True), st.data())
def test_records_repeated_left_out_or_moved_break_the_stream(
    messages: list[int], data: st.DataObject
) -> None:
    left, right = ends()
    parts = [sent(left, message) for message in messages]
    order = data.draw(st.lists(st.sampled_from(range(len(parts))), min_size=1, max_size=8))
    in_order = 0
    while in_order < len(order) and order[in_order] == in_order:
        in_order += 1
    got: list[object] = []
    try:
        for number in order:
            got += fed(right, parts[number])
        assert in_order == len(order)
    except ChannelBroken:
        assert in_order < len(order)
    assert got == messages[:in_order]


@settings(max_examples=200)
@given(st.binary(min_size=1, max_size=4000))
def test_bytes_of_strangers_are_never_decoded(data: bytes) -> None:
    _, right = ends()
    with suppress(ChannelBroken):
        assert fed(right, data) == []
    assert right.received == 0


def test_a_pickle_of_a_stranger_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("decoded what has not proved itself")

    monkeypatch.setattr(pickle, "loads", refuse)
    stranger = Sealed(SealState(b"x" * 32, b"y" * 32))
    _, right = ends()
    with pytest.raises(ChannelBroken, match="record 0 has a wrong seal"):
        fed(right, sent(stranger, {"run": "me"}))


def test_a_record_can_not_be_sent_back() -> None:
    left, _ = ends()
    with pytest.raises(ChannelBroken, match="wrong seal"):
        fed(left, sent(left, "mirror"))


def test_a_length_out_of_bounds_is_refused_at_once() -> None:
    _, right = ends()
    head = (RECORD_BYTES_MAX + 1).to_bytes(HEAD_BYTES, "little")
    with pytest.raises(ChannelBroken, match="longer than any may be"):
        fed(right, head)


def test_what_has_not_proved_itself_is_kept_up_to_one_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sealed, "RECORD_BYTES_MAX", 100)
    _, right = ends()
    chunk = (100).to_bytes(HEAD_BYTES, "little") + b"x" * 10
    for _ in range(100):
        with suppress(ChannelBroken):
            fed(right, chunk)
        assert len(right._pending) <= HEAD_BYTES + 100 + SEAL_BYTES + len(chunk)
    assert right.received == 0


def test_a_message_that_never_ends_is_refused() -> None:
    sender = Sealed(KEYS)
    _, receiver = ends(message_bytes_max=3 * RECORD_BYTES_MAX)
    stream = sent(sender, b"x" * (4 * RECORD_BYTES_MAX))
    with pytest.raises(ChannelBroken, match="longer than any may be"):
        fed(receiver, stream)


def test_what_is_too_long_is_not_sent_and_the_stream_goes_on() -> None:
    left, right = ends(message_bytes_max=1000)
    with pytest.raises(MessageTooLarge, match="at most 1,000"):
        sent(left, b"x" * 1001)
    assert fed(right, sent(left, "short")) == ["short"]


def test_big_arrays_go_in_several_records() -> None:
    left, right = ends()
    array = np.random.default_rng(3).random((1000, 700), dtype=np.float32)
    stream = sent(left, {"array": array}, "behind it")
    assert left.state.sent == 4
    first, second = fed(right, stream, 70_000)
    np.testing.assert_array_equal(first["array"], array)
    first["array"][0, 0] = 7  # the receiver's own copy
    assert second == "behind it"


def test_a_stream_is_handed_over_between_two_messages() -> None:
    left, right = ends()
    assert fed(right, sent(left, 1)) == [1]
    heir = Sealed(SealState.from_bytes(right.state.to_bytes()))
    assert fed(heir, sent(left, 2)) == [2]
    assert fed(left, sent(heir, "back")) == ["back"]
    fed(heir, sent(left, 3)[:-1])
    with pytest.raises(ChannelBroken, match="more was sent"):
        _ = heir.state
