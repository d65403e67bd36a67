"""All sources against one server after the other."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tools.attacks.configuration import Configuration
from tools.attacks.exchange import Request
from tools.attacks.fuzz.good_source import send_good
from tools.attacks.fuzz.raw_source import send_raw
from tools.attacks.fuzz.schema_source import send_schema
from tools.attacks.fuzz.tally import Tally
from tools.attacks.ground import Ground
from tools.attacks.served import Served, served

Source: TypeAlias = Callable[[Served, Tally, int, int], None]
SHARES: Final[Sequence[tuple[Source, float]]] = (
    (send_schema, 0.4),
    (send_raw, 0.2),
    (send_raw, 0.2),
    (send_good, 0.1),
    (send_good, 0.1),
)
SEEDS_A_SOURCE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """One server after all its requests, which took `seconds`."""

    configuration: Configuration
    tally: Tally
    seconds: float

    @property
    def row(self) -> dict[str, object]:
        """It as results have it."""
        tally = self.tally
        return {
            "configuration": self.configuration.name,
            "seconds": round(self.seconds, 1),
            "requests": tally.requests,
            "accepted": tally.accepted,
            "refused_good": tally.refused_good,
            "undescribed": tally.undescribed,
            "server_errors": tally.server_errors,
            "crashes": tally.crashes,
            "statuses": {str(status): n for status, n in sorted(tally.statuses.items())},
            "routes": dict(sorted(tally.routes.items())),
            "workflows": dict(sorted(tally.workflows.items())),
        }


def fuzz(ground: Ground, configuration: Configuration, count: int, seed: int) -> Fuzzed:
    """Start a server, send it `count` requests of all sources, and look at what is left of it."""
    tally = Tally()
    with served(ground, configuration) as server:
        threads = [
            threading.Thread(
                target=send, args=(server, tally, round(count * share), seed + n * SEEDS_A_SOURCE)
            )
            for n, (send, share) in enumerate(SHARES)
        ]
        begun_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun_s
        _look_after(server, tally)
    return Fuzzed(configuration, tally, seconds)


def _look_after(server: Served, tally: Tally) -> None:
    """See that the server still answers, has lost no lane, and ends well. Mutates: tally."""
    if not server.is_alive:
        tally.add_crash(f"the server ended with {server.process.returncode}", server.log)
        return
    health = server.health()
    if not health["ready"]:
        tally.add_crash(f"the server isn't ready: {health['lanes']}", server.log)
    if restarts := server.lane_restarts():
        tally.add_crash(f"{restarts} lanes were started again", server.log)
    question = Request.of_json("/v1/search", {"query": "rock"})
    if not server.ask(question).is_accepted:
        tally.add_crash("a plain search is refused at the end", server.log)
    if code := server.stop():
        tally.add_crash(f"it ended with {code} on SIGTERM", server.log)
    if "Traceback" in server.log:
        tally.add_crash("a traceback is in the log", server.log)
