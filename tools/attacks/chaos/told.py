"""One request as its client lives through it: the text that was shown, and how it ended."""

import json
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from tools.attacks.exchange import Request

ANSWER_S_MAX: Final = 90.0  # longer than a lane's restart, and than the grace at a stop
LONG_TOKENS: Final = 200
SHOWING_NODE: Final = "answer"  # its tokens are the answer's text


@dataclass(slots=True)
class Told:
    """What a client has seen.

    Attributes:
        status: the reply's status; 0 = not even its first line came.
        ends: how many ends came: whole replies, or `answer` and `error` events.
        answer: the answer's fields; None = an error, or nothing.
        shown: text of the tokens that were streamed.
        is_stream: whether the reply is a stream.
        failure: how the connection broke; "" = it didn't.
    """

    status: int = 0
    ends: int = 0
    answer: dict[str, Any] | None = None
    shown: list[str] = field(default_factory=list)
    is_stream: bool = False
    failure: str = ""

    @property
    def is_shown_twice(self) -> bool:
        """Whether the streamed text isn't the answer's."""
        if not self.is_stream or self.answer is None:
            return False
        return "".join(self.shown).strip() != str(self.answer["answer"]).strip()

    @property
    def tokens(self) -> int:
        """Tokens that models wrote for it."""
        return 0 if self.answer is None else int(self.answer["receipt"]["generated_tokens"])

    def take(self, name: str, data: dict[str, Any]) -> None:
        """Take an event of the stream."""
        if name == "token" and data["node"] == SHOWING_NODE:
            self.shown.append(data["text"])
        if name in ("answer", "error"):
            self.ends += 1
            self.answer = data if name == "answer" else self.answer


def tell(url: str, request: Request) -> Told | None:
    """Send a request and live through it; None = the server couldn't be reached."""
    told = Told()
    connection = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_S_MAX)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.request(
            request.method,
            request.path,
            request.body or None,
            {**request.headers, "Connection": "close"},
        )
        _read(connection, told)
    except (OSError, HTTPException) as error:
        told.failure = repr(error)
    finally:
        connection.close()
    return told


def _read(connection: HTTPConnection, told: Told) -> None:
    reply = connection.getresponse()
    told.status = reply.status
    told.is_stream = reply.getheader("Content-Type", "").startswith("text/event-stream")
    if not told.is_stream:
        body = reply.read()
        told.ends += 1
        is_answer = reply.status == 200 and b'"answer":' in body
        told.answer = json.loads(body) if is_answer else None
        return
    name = ""
    while line := reply.readline():
        kind, _, value = line.decode().rstrip("\n").partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            told.take(name, json.loads(value))


def reset_by_stop(told: Told) -> bool:
    """Whether a connection was closed before the server took its request."""
    return told.status == 0 and bool(told.failure) and TimeoutError.__name__ not in told.failure
