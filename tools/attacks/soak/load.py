"""Good requests of several clients at once, and what became of them."""

import threading
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from itertools import islice
from typing import Final

from tools.attacks.good_requests import GoodRequests
from tools.attacks.served import Served

CLIENTS: Final = 4
SEEDS_A_CLIENT: Final = 1_000


class Load:
    """Clients that send good requests, each one after the other.

    Attributes:
        statuses: replies by status; 0 = none came.
        refused: replies that did not do what the request asked; the first of them, as text.
    """

    def __init__(self, server: Served, seed: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.refused: list[str] = []
        self._server = server
        self._clients = [
            iter(GoodRequests(server.configuration, seed * SEEDS_A_CLIENT + n))
            for n in range(CLIENTS)
        ]
        self._lock = threading.Lock()

    @property
    def sent(self) -> int:
        """Requests so far."""
        return sum(self.statuses.values())

    def send(self, count: int, every: int, sample: Callable[[int], None]) -> None:
        """Send `count` requests; after each `every` of them all clients stop for a sample.

        Args:
            count: how many, rounded up to whole samples.
            every: how many stand between two samples.
            sample: takes the number of requests so far.
        """
        for _ in range(-(-count // every)):
            threads = [
                threading.Thread(target=self._send, args=(number, -(-every // CLIENTS)))
                for number in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            sample(self.sent)

    def _send(self, client: int, count: int) -> None:
        for request, _ in islice(self._clients[client], count):
            try:
                reply = self._server.ask(request)
            except (OSError, HTTPException) as error:
                self._note(0, f"{request.route}: {error!r}")
                continue
            said = "" if reply.is_accepted else f"{request.route}: {reply.body[-300:]!r}"
            self._note(reply.status, said)

    def _note(self, status: int, refused: str) -> None:
        with self._lock:
            self.statuses[status] += 1
            if refused:
                self.refused.append(refused)
