"""Server-sent events out of bytes, in any pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.remote.http.event_reader import EVENT_BYTES_MAX, EventReader
from heddle.engines.remote.problem import RemoteProblem, Trouble

STREAM = b": ping\n\ndata: one\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\nid: 7\n\ndata: 3\n\n"
EVENTS = [b"one", b"two\nlines", b"3"]


@given(cuts=st.sets(st.integers(1, len(STREAM) - 1)))
def test_events_are_the_same_in_any_pieces(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    reader, found = EventReader(), []
    for a, b in pairwise(places):
        found += reader.feed(STREAM[a:b])
    assert found == EVENTS
    assert list(reader.close()) == []


def test_the_end_of_the_stream_ends_the_last_event() -> None:
    reader = EventReader()
    assert list(reader.feed(b"data: last")) == []
    assert list(reader.close()) == [b"last"]


def test_an_event_without_data_is_none() -> None:
    assert list(EventReader().feed(b"data:\n\ndata: one\n\ndata: \r\n\r\n")) == [b"one"]


@pytest.mark.parametrize("filler", [b"x" * 4096, b"data: " + b"x" * 4096 + b"\n"])
def test_an_event_without_end_is_refused(filler: bytes) -> None:
    reader = EventReader()
    whole = filler * (EVENT_BYTES_MAX // len(filler) - 2)
    assert list(reader.feed(whole)) == []
    with pytest.raises(RemoteProblem, match="more than") as refused:
        list(reader.feed(filler * 4))
    assert refused.value.trouble is Trouble.GARBAGE
