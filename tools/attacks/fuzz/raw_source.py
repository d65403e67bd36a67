"""Raw bytes on the socket: noise, and requests that are cut, bent and glued."""

import re
import socket
from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from hypothesis import given, seed
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tools.attacks.exchange import Reply, wire
from tools.attacks.fuzz.drawing import DRAWN
from tools.attacks.fuzz.tally import Tally
from tools.attacks.good_requests import GoodRequests
from tools.attacks.served import Served

STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})")
ANSWER_S: Final = 0.05  # what a request that is whole may take, before the client closes its side
CLOSE_S_MAX: Final = 60.0
GOOD: Final = 200  # requests that are bent
PIECES: Final = (
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    b"Host: elsewhere.example\r\n",
    b"GET http://127.0.0.1/health HTTP/1.1\r\n\r\n",
    b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
    b'{"question": NaN, "topk": 1e400}',
    b"[" * 2_000,
    b"9" * 5_000,
    b'"\\ud800"',
)


def send_raw(server: Served, tally: Tally, count: int, first_seed: int) -> None:
    """Send `count` byte strings, each on a connection of its own. Mutates: tally."""
    drawn = _byte_strings(server, first_seed)
    left = count
    batch = 0
    while left:
        batch += 1
        for sent in _batch(drawn, first_seed + batch):
            if left:
                left -= 1
                _send(server, tally, sent)


def bent(good: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Return requests of which a part is cut out, turned to other bytes, or glued in."""
    at = st.integers(0, 2_000)
    changed = st.tuples(good, at, at, st.one_of(st.sampled_from(PIECES), st.binary(max_size=40)))
    return changed.map(lambda drawn: _with_piece(*drawn))


def _with_piece(text: bytes, begin: int, length: int, piece: bytes) -> bytes:
    begin %= len(text) + 1
    return text[:begin] + piece + text[begin + length % 8 :]


def _byte_strings(server: Served, first_seed: int) -> SearchStrategy[bytes]:
    host = urlsplit(server.url).netloc
    requests = islice(GoodRequests(server.configuration, first_seed), GOOD)
    texts = [wire(request.with_headers(server.headers), host) for request, _ in requests]
    good = st.sampled_from(texts)
    cut = st.tuples(good, st.integers(0, 2_000)).map(lambda drawn: drawn[0][: drawn[1]])
    glued = st.tuples(bent(good), good).map(lambda drawn: drawn[0] + drawn[1])
    noise = st.lists(st.sampled_from(PIECES) | st.binary(max_size=60), min_size=1).map(b"".join)
    return st.one_of(bent(good), bent(bent(good)), cut, glued, noise, st.binary(max_size=4_000))


def _batch(drawn: SearchStrategy[bytes], batch_seed: int) -> Iterator[bytes]:
    found: list[bytes] = []

    @seed(batch_seed)
    @DRAWN
    @given(sent=drawn)
    def keep(sent: bytes) -> None:
        found.append(sent)

    keep()
    yield from found


def _send(server: Served, tally: Tally, sent: bytes) -> None:
    address = urlsplit(server.url)
    try:
        with socket.create_connection((address.hostname, address.port), CLOSE_S_MAX) as connection:
            came = _answer(connection, sent)
    except (BrokenPipeError, ConnectionResetError):
        tally.add_unanswered(sent, "closed while it was sent", is_crash=False)
        return
    except OSError as error:
        tally.add_unanswered(sent, repr(error), is_crash=True)
        return
    replies = STATUS.findall(came)
    if not replies:
        tally.add_unanswered(sent, "closed without a reply", is_crash=False)
    else:
        # A connection counts once: by the worst of its replies.
        headers = {"retry-after": ""} if b"\r\nretry-after: " in came.lower() else {}
        tally.add(sent, Reply(max(map(int, replies)), headers, came))


def _answer(connection: socket.socket, sent: bytes) -> bytes:
    """Return what comes for some bytes; the server must close the connection in the end."""
    connection.sendall(sent)
    came = bytearray()
    connection.settimeout(ANSWER_S)
    try:
        while part := connection.recv(1 << 16):
            came += part
        return bytes(came)
    except TimeoutError:
        connection.shutdown(socket.SHUT_WR)
    connection.settimeout(CLOSE_S_MAX)
    while part := connection.recv(1 << 16):
        came += part
    return bytes(came)
