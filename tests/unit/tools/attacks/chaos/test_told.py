"""What a client is shown, over a real connection to a server of a few lines."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tools.attacks.chaos.told import Told, reset_by_stop, tell
from tools.attacks.exchange import Request

ASK = Request.of_json("/v1/ask", {"question": "why"})


def event(name: str, **data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def answer(text: str) -> dict[str, object]:
    return {"answer": text, "receipt": {"generated_tokens": 3}}


@contextmanager
def replying(body: bytes, kind: str, length: int | None = None) -> Iterator[str]:
    """Serve one reply; `length` announces more bytes than there are."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        thread.join()


def told_of(body: bytes, kind: str = "text/event-stream", length: int | None = None) -> Told:
    with replying(body, kind, length) as url:
        found = tell(url, ASK)
    assert found is not None
    return found


def token(text: str, node: str = "answer") -> bytes:
    return event("token", node=node, text=text)


def test_a_stream_ends_once_and_shows_its_answer() -> None:
    body = (
        token("it ")
        + token("no", node="imagine")
        + token("is")
        + event("answer", **answer("it is"))
    )
    told = told_of(body)
    assert (told.status, told.ends, told.tokens, told.failure) == (200, 1, 3, "")
    assert told.shown == ["it ", "is"]
    assert not told.is_shown_twice


def test_a_text_that_is_streamed_twice_is_seen() -> None:
    body = token("it ") + token("it ") + token("is") + event("answer", **answer("it is"))
    assert told_of(body).is_shown_twice


def test_two_ends_are_counted_and_an_error_is_no_answer() -> None:
    told = told_of(token("it") + event("error", status=500) + event("error", status=500))
    assert (told.ends, told.answer) == (2, None)
    assert not told.is_shown_twice


def test_a_plain_reply_is_an_end() -> None:
    told = told_of(json.dumps(answer("it is")).encode(), "application/json")
    assert (told.ends, told.tokens, told.is_stream) == (1, 3, False)


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_a_reply_that_is_cut_has_no_end(kind: str) -> None:
    told = told_of(token("it"), kind, length=10_000)
    assert (told.status, told.ends) == (200, 0)
    assert not reset_by_stop(told)


def test_a_server_that_is_away_is_not_asked() -> None:
    with replying(b"", "application/json") as url:
        tell(url, ASK)
    assert tell(url, ASK) is None


def test_a_connection_without_a_reply_was_reset_but_one_that_hangs_was_not() -> None:
    assert reset_by_stop(Told(failure="ConnectionResetError(104)"))
    assert not reset_by_stop(Told(failure="TimeoutError('timed out')"))
    assert not reset_by_stop(Told(status=200, failure="ConnectionResetError(104)"))
