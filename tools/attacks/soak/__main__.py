"""`python -m tools.attacks.soak [--requests N] [--warm-up N] [--seed N] [--json FILE]`."""

import argparse
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heddle.hosts.memory.resting_memory import REST_S
from tools.attacks.configuration import KV_REUSE
from tools.attacks.ground import Ground
from tools.attacks.result import publish
from tools.attacks.served import Served, served
from tools.attacks.soak.footprint import Footprint, named_blocks
from tools.attacks.soak.load import Load
from tools.attacks.soak.trend import slope

REQUESTS: Final = 6_000
SAMPLES_MIN: Final = 10
EVERY_MAX: Final = 200
WARM_UP: Final = 1.5  # of the requests; the index is made anew in it, when documents have changed
QUERY_TEXTS: Final = 20_000  # as many vectors of queries as are kept, and some
SLOPE_MAX: Final = 5.0
JUDGED_REQUESTS_MIN: Final = 2_000
SETTLE_TRIES: Final = 20
SETTLE_S: Final = 0.2
RESTED_S: Final = REST_S + 1.5  # lanes have given back what they had freed
MB: Final = 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak one server; 1 where a figure is off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--warm-up", type=int, metavar="N", help="default: 1.5 times --requests")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    warm_up = int(WARM_UP * options.requests) if options.warm_up is None else options.warm_up
    before = named_blocks()
    with tempfile.TemporaryDirectory() as folder, served(Ground(Path(folder)), KV_REUSE) as server:
        soaked = Soak(server, options.seed)
        soaked.run(warm_up, options.requests)
        code = server.stop()
    headline = {
        "requests": soaked.samples[-1][0] - soaked.samples[0][0],
        "rss_slope_mb_per_1000": round(soaked.slope, 2),
        "fds": soaked.grown("fds"),
        "shm": soaked.grown("memfds") + len(named_blocks() - before),
    }
    rows = [{"sent": sent, **found.counts()} for sent, found in soaked.samples]
    settings = {"requests": options.requests, "warm_up": warm_up, "seed": options.seed}
    publish("soak", settings, rows, headline, options.json)
    off = [*soaked.load.refused[:20], *([f"it ended with {code} on SIGTERM"] if code else [])]
    off += [f"{name} {headline[name]} is above 0" for name in ("fds", "shm") if headline[name] > 0]
    if options.requests < JUDGED_REQUESTS_MIN:
        print(f"the slope isn't judged below {JUDGED_REQUESTS_MIN:,} requests: caches still fill")
    elif soaked.slope > SLOPE_MAX:
        off.append(f"memory grows by {soaked.slope:.2f} MB per 1,000 requests")
    if headline["fds"] > 0:
        off.append(f"new descriptors: {', '.join(soaked.new_descriptors())}")
    for line in off:
        print(line, file=sys.stderr)
    return 1 if off else 0


class Soak:
    """One long run.

    Attributes:
        load: its clients.
        samples: after the warm-up: requests so far, and the footprint then.
    """

    def __init__(self, server: Served, seed: int) -> None:
        self.load = Load(server, seed)
        self.samples: list[tuple[int, Footprint]] = []
        self._server = server
        self._pause = threading.Event()

    @property
    def slope(self) -> float:
        """Growth of memory [MB per 1,000 requests]."""
        return slope([(sent / 1e3, found.pss_bytes / MB) for sent, found in self.samples])

    def run(self, warm_up: int, requests: int) -> None:
        """Send both parts of the load. Mutates: load and samples."""
        every = max(1, min(EVERY_MAX, requests // SAMPLES_MIN))
        if requests >= JUDGED_REQUESTS_MIN:
            self.load.fill(QUERY_TEXTS)
        self.load.send(warm_up, every, lambda _: None)
        self._sample(self.load.sent)
        self.load.send(requests, every, self._sample)

    def grown(self, name: str) -> int:
        """Return how much more of something there is at the end than after the warm-up."""
        first, last = self.samples[0][1], self.samples[-1][1]
        return max(0, int(getattr(last, name)) - int(getattr(first, name)))

    def new_descriptors(self) -> list[str]:
        """Return what the descriptors are that were not there after the warm-up."""
        first, last = self.samples[0][1], self.samples[-1][1]
        return sorted((Counter(last.descriptors) - Counter(first.descriptors)).elements())

    def _sample(self, sent: int) -> None:
        """Look at the server once its lanes have rested and the last connections are closed."""
        self._pause.wait(RESTED_S)
        for _ in range(SETTLE_TRIES):
            is_idle = not self._server.health()["requests"]
            self._pause.wait(SETTLE_S)
            found = Footprint.of(self._server.processes())
            if is_idle and (not self.samples or found.fds <= self.samples[0][1].fds):
                break
        self.samples.append((sent, found))
        print(f"{sent} requests: {found.pss_bytes / MB:.1f} MB, {found.fds} fds", flush=True)


if __name__ == "__main__":
    sys.exit(main())
