"""A request, its reply, and whether the reply is an error of the server's own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlsplit

JSON: Final = {"Content-Type": "application/json"}
LATER: Final = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)
ERROR_EVENT: Final = b"event: error\ndata: "


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; `path` has the query string, if there is one."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, path: str, fields: Mapping[str, object]) -> "Request":
        """Return a POST of a JSON object."""
        return cls("POST", path, json.dumps(fields).encode(), JSON)

    @property
    def route(self) -> str:
        """Its method and its path without the query, as results name it."""
        return f"{self.method} {urlsplit(self.path).path}"

    def with_headers(self, more: Mapping[str, str]) -> "Request":
        """Return the same request with more headers."""
        return replace(self, headers={**self.headers, **more})


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_accepted(self) -> bool:
        """Whether the request was done: a stream must not end with an error."""
        return 200 <= self.status < 300 and ERROR_EVENT not in self.body

    def json(self) -> dict[str, Any]:
        """Return the body's object."""
        found: dict[str, Any] = json.loads(self.body)
        return found


def exchange(url: str, request: Request, timeout_s: float = 60.0) -> Reply:
    """Send a request on a connection of its own and return the reply.

    Raises:
        OSError: the connection failed, or no byte came for `timeout_s`.
        http.client.HTTPException: what came is no whole reply.
    """
    connection = HTTPConnection(urlsplit(url).netloc, timeout=timeout_s)
    try:
        sent = {**request.headers, "Connection": "close"}
        connection.request(request.method, request.path, request.body or None, sent)
        found = connection.getresponse()
        headers = {name.lower(): value for name, value in found.getheaders()}
        return Reply(found.status, headers, found.read())
    finally:
        connection.close()


def wire(request: Request, host: str) -> bytes:
    """Return a request as HTTP/1.1 writes it."""
    headers = {"Host": host, "Content-Length": str(len(request.body)), **request.headers}
    lines = [f"{request.method} {request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def is_server_error(request: bytes, reply: Reply) -> bool:
    """Whether a reply says that the server failed, in its status or in an event of its stream.

    A full server or a full disk is no failure where the reply says when to come again, nor is a
    late answer to a request that named its deadline.
    """
    status, retries = reply.status, "retry-after" in reply.headers
    if ERROR_EVENT in reply.body:
        event = reply.body.rpartition(ERROR_EVENT)[2].partition(b"\n")[0]
        status = json.loads(event)["status"]
        retries = True  # an event has no headers
    if status < 500 or (status in LATER and retries):
        return False
    return status != HTTPStatus.GATEWAY_TIMEOUT or b"deadline_s" not in request
