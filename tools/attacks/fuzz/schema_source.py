"""Cases that schemathesis makes from the document that the server itself gives out."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

import requests
import schemathesis
from hypothesis import given, seed
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tools.attacks.exchange import Reply
from tools.attacks.fuzz.drawing import DRAWN
from tools.attacks.fuzz.tally import Tally
from tools.attacks.served import Served

AnyCase: TypeAlias = Case[Any]
AS_DESCRIBED: Final = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
TIMEOUT_S: Final = 60.0


def send_schema(server: Served, tally: Tally, count: int, first_seed: int) -> None:
    """Send `count` cases, right and wrong ones of each operation in turns. Mutates: tally."""
    waiting = deque(_strategies(server))
    sender = _Sender(server, tally, count)
    batch = 0
    while waiting and sender.left:
        batch += 1
        cases = waiting.popleft()
        if sender.send_batch(cases, first_seed + batch):
            waiting.append(cases)


class _Sender:
    """Sends drawn cases until `left` is 0."""

    def __init__(self, server: Served, tally: Tally, count: int) -> None:
        self._server = server
        self._tally = tally
        self.left = count

    def send_batch(self, cases: SearchStrategy[AnyCase], batch_seed: int) -> bool:
        """Draw a batch and send it; return whether there was any case.

        An operation without parameters has none that are wrong.
        """
        before = self.left

        @seed(batch_seed)
        @DRAWN
        @given(case=cases)
        def send(case: AnyCase) -> None:
            self._send(case)

        with suppress(Unsatisfiable):
            send()
        return self.left < before or not self.left

    def _send(self, case: AnyCase) -> None:
        if not self.left:
            return
        self.left -= 1
        headers = {**self._server.headers, "Connection": "close"}
        route = f"{case.operation.method.upper()} {case.operation.path}"
        try:
            found = case.call(
                base_url=self._server.url, headers=headers, timeout=TIMEOUT_S, allow_redirects=False
            )
        except requests.RequestException as error:
            sent = f"{route} {case.as_curl_command()}".encode(errors="replace")
            self._tally.add_unanswered(sent, repr(error), is_crash=_reached_server(error))
            return
        body = found.request.body or b""
        sent = body if isinstance(body, bytes) else str(body).encode()
        names = {name: values[0] for name, values in found.headers.items()}
        # Another method than the operation's is a wrong case of it, and another route.
        is_route = found.request.method == case.operation.method.upper()
        reply = Reply(found.status_code, names, found.content)
        self._tally.add(sent, reply, route * is_route)
        try:
            case.validate_response(found, checks=AS_DESCRIBED)
        except FailureGroup as group:
            for failure in group.exceptions:
                self._tally.add_undescribed(sent, reply, f"{route}: {failure.title}")


def _reached_server(error: requests.RequestException) -> bool:
    """Whether the request could be sent at all: a header may hold what none can."""
    return isinstance(error, requests.ConnectionError | requests.Timeout)


def _strategies(server: Served) -> Iterator[SearchStrategy[AnyCase]]:
    document = schemathesis.openapi.from_url(
        f"{server.url}/openapi.json", headers=dict(server.headers)
    )
    operations = [
        document[path][method] for path, methods in document.items() for method in methods
    ]
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            yield operation.as_strategy(generation_mode=mode)
