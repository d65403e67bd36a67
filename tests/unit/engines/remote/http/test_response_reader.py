"""HTTP responses out of bytes, in any pieces."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.remote.http.response_reader import (
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    ResponseReader,
)
from heddle.engines.remote.problem import RemoteProblem, Trouble


@dataclass
class Sink:
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    ends: int = 0
    is_satisfied: bool = False

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_end(self) -> None:
        self.ends += 1


def read(pieces: Sequence[bytes]) -> tuple[Sink, ResponseReader]:
    sink = Sink()
    reader = ResponseReader(sink)
    for piece in pieces:
        reader.feed(piece)
    return sink, reader


WHOLE = {
    "counted": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nhe\r\n3;name=value\r\nllo\r\n0\r\nX-Trailer: 1\r\n\r\n"
    ),
    "after an interim one": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    ),
}


@given(data=st.data(), kind=st.sampled_from(sorted(WHOLE)))
def test_a_response_is_the_same_in_any_pieces(data: st.DataObject, kind: str) -> None:
    whole = WHOLE[kind]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    sink, reader = read(pieces)
    assert (sink.status, sink.body, sink.ends) == (200, b"hello", 1)
    assert reader.may_reuse


def test_a_response_without_a_length_ends_with_the_connection() -> None:
    sink, reader = read([b"HTTP/1.1 200 OK\r\n\r\nhe", b"llo"])
    assert not reader.has_ended
    reader.close()
    assert (sink.body, sink.ends, reader.may_reuse) == (b"hello", 1, False)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore",
    ],
)
def test_a_connection_is_kept_only_where_both_sides_agree(head: bytes) -> None:
    _, reader = read([head])
    assert reader.has_ended
    assert not reader.may_reuse


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 999 X\r\n\r\n",
        b"x" * 100,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * CHUNK_LINE_BYTES_MAX * 2,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
def test_what_is_no_response_is_refused(garbage: bytes) -> None:
    with pytest.raises(RemoteProblem) as refused:
        read([garbage])
    assert refused.value.trouble is Trouble.NO_API


@pytest.mark.parametrize(
    ("begun", "words"),
    [(b"", "before its answer"), (WHOLE["counted"][:-1], "in the middle of its answer")],
)
def test_an_early_end_is_told(begun: bytes, words: str) -> None:
    _, reader = read([begun] if begun else [])
    with pytest.raises(RemoteProblem, match=words) as cut:
        reader.close()
    assert cut.value.trouble is Trouble.CUT
