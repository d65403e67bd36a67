"""Good requests of several clients at once, and what became of them."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from itertools import islice
from typing import Final

from tools.attacks.exchange import Request
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
        each = -(-every // CLIENTS)
        for _ in range(-(-count // every)):
            self._at_once(lambda client: self._send(self._drawn(client, each)))
            sample(self.sent)

    def _drawn(self, client: int, count: int) -> Iterator[Request]:
        return (request for request, _ in islice(self._clients[client], count))

    def fill(self, texts: int) -> None:
        """Search for that many different texts, so that no cache of query vectors grows later."""
        each = -(-texts // CLIENTS)
        searches = [
            [
                Request.of_json("/v1/search", {"query": f"filling {number} of {client}", "topk": 1})
                for number in range(each)
            ]
            for client in range(CLIENTS)
        ]
        self._at_once(lambda client: self._send(searches[client]))

    def _at_once(self, of_client: Callable[[int], None]) -> None:
        threads = [threading.Thread(target=of_client, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, requests: Iterable[Request]) -> None:
        for request in requests:
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
