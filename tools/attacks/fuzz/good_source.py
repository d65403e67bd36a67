"""Requests that the server must accept."""

from http.client import HTTPException
from itertools import islice

from tools.attacks.fuzz.tally import Tally
from tools.attacks.good_requests import GoodRequests
from tools.attacks.served import Served

RETRIED = (503, 507)


def send_good(server: Served, tally: Tally, count: int, seed: int) -> None:
    """Send `count` requests that must be accepted. Mutates: tally."""
    for request, workflow in islice(GoodRequests(server.configuration, seed), count):
        try:
            reply = server.ask(request)
        except (OSError, HTTPException) as error:
            tally.add_unanswered(request.body, repr(error), is_crash=True)
            continue
        tally.add(request.body, reply, request.route, workflow)
        if 400 <= reply.status < 500:
            tally.add_refused_good(request.body, reply, request.route)
