"""Clients that ask without a pause while a server is broken, stopped and started again."""

import random
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final

from tools.attacks.chaos.ledger import Ledger
from tools.attacks.chaos.told import LONG_TOKENS, tell
from tools.attacks.exchange import Request
from tools.attacks.served import Served

CLIENTS: Final = 4
LONG_SHARE: Final = 0.15
PUT_SHARE: Final = 0.1
SEARCH_SHARE: Final = 0.35
SHORT_TOKENS: Final = 8
AWAY_S: Final = 0.1
LATER_S: Final = 1.0  # what a refusal's Retry-After says
ROCKS: Final = 10


class Crowd:
    """Several clients, each with one request at a time.

    Attributes:
        server: whom they ask; replaced after a restart.
        confirmed: ids of documents that a server has confirmed.
    """

    def __init__(self, server: Served, ledger: Ledger, seed: int) -> None:
        self.server = server
        self.confirmed: set[str] = set()
        self._ledger = ledger
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(f"{seed}-{n}",)) for n in range(CLIENTS)
        ]

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, requests: int, within_s: float = 120.0) -> None:
        """Wait until the ledger has `requests` of them.

        Raises:
            TimeoutError: they didn't come; the clients hang.
        """
        until_s = time.perf_counter() + within_s
        while self._ledger.requests < requests:
            if time.perf_counter() > until_s:
                raise TimeoutError(f"{self._ledger.requests} of {requests} requests came")
            self._ends.wait(AWAY_S)

    def _ask(self, name: str) -> None:
        drawn = _drawn(name, self.server.headers)
        while not self._ends.is_set():
            request, put = next(drawn)
            begun_s = time.perf_counter()
            told = tell(self.server.url, request)
            if told is None:  # it stops, or another is about to start
                self._ends.wait(AWAY_S)
                continue
            self._ledger.add(request.body.decode(), told, begun_s, time.perf_counter())
            if put and told.status == 200:
                self.confirmed.add(put)
            if told.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self._ends.wait(LATER_S)


def _drawn(name: str, headers: Mapping[str, str]) -> Iterator[tuple[Request, str]]:
    """Yield requests without end, each with the id of the document that it puts; "" = none."""
    rng = random.Random(name)
    number = 0
    while True:
        share, rock = rng.random(), rng.randrange(1, ROCKS + 1)
        question = f"Who keeps the lighthouse on Rock {rock}?"
        put = ""
        if share < LONG_SHARE:
            request = _asked(question, LONG_TOKENS, stream=True)
        elif share < LONG_SHARE + PUT_SHARE:
            number += 1
            put = f"boat-{name}-{number}"
            fields = {"id": put, "text": f"The boat {put} sails to Rock {rock}."}
            request = Request.of_json("/v1/documents", fields)
        elif share < LONG_SHARE + PUT_SHARE + SEARCH_SHARE:
            request = Request.of_json("/v1/search", {"query": question})
        else:
            request = _asked(question, SHORT_TOKENS, stream=rng.random() < 0.5)
        yield request.with_headers(headers), put


def _asked(question: str, tokens: int, *, stream: bool) -> Request:
    fields = {"question": question, "workflow": "oneshot", "max_tokens": tokens, "topk": 2}
    return Request.of_json("/v1/ask", {**fields, "temperature": 0, "stream": stream})
