"""`heddle simulate cell --calibrate RUN.json`: a cell's latencies, by what its work costs.

A cell is one runtime with its lanes. From a run of `heddle bench workflows` come the requests' work
and the engines' costs, which are scaled until they work as long in all as they did; its latencies
are not used, but predicted, at the run's own arrivals. Beside the engines the runtime's cycles
cost time, one after the other.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.support.data import rows as data_rows
from benchmarks.virtual.calibration import Calibration, RealRun
from benchmarks.virtual.clocked_server import VirtualAsk
from benchmarks.virtual.contenders import OWN, WAYS
from benchmarks.virtual.corpora import RECORD
from benchmarks.virtual.load import Corpus
from benchmarks.virtual.scripts import FIVE
from benchmarks.virtual.server import LLM, RETRIEVAL, Way
from heddle.core.errors import InputError

TRACES: Final = {"ragpulse": "trace_ragpulse", "azure": "trace_azure_conv"}
ARRIVALS: Final = ("poisson", *TRACES)


@dataclass(frozen=True, slots=True)
class Prediction:
    """p50 and p95 of a corpus's requests: as they were, and as the cell predicts them [s]."""

    corpus: str
    real_s: tuple[float, float]
    predicted_s: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float]:
        """How far the predictions are off, as a share of what was."""
        p50, p95 = (
            own / real - 1.0 for own, real in zip(self.predicted_s, self.real_s, strict=True)
        )
        return p50, p95


@dataclass(frozen=True, slots=True)
class Asked:
    """What is predicted beside the run: a share of its capacity, and how requests come.

    Evenly over that load, `losses` times a node is lost, of the LLM lane and of the lane that
    searches in turns; its lane is back `restart_s` after that is noticed [s].
    """

    arrivals: str
    load: float
    requests: int
    seed: int
    losses: int = 0
    restart_s: float = 5.0


def predicted(path: Path, router_s: float | None, asked: Asked) -> dict[str, object]:
    """Calibrate a cell by a run, predict the run's latencies, and those of what is asked.

    Args:
        path: a result of `heddle bench workflows`.
        router_s: what a cycle of the runtime takes [s]; None = as its process computed in the run.
        asked: what is predicted beside the run.

    Returns: settings, a row for each corpus, the headline.

    Raises:
        InputError: the file can't be read, has no record of its work, or a trace isn't there.
    """
    run = RealRun.read(path, RECORD)
    if not run.has_own_record:
        raise InputError(
            f"--calibrate {path}: the run has not recorded its work: write it again with "
            "`heddle bench workflows --json FILE`"
        )
    way = WAYS[OWN]
    way = replace(way, speculates=way.speculates and run.speculates)
    rows: list[dict[str, object]] = []
    errors = []
    for name, cell in Calibration.of(run).items():
        cell.find_work(OWN, way)
        if router_s is not None:
            cell.cycles_take(router_s)
        one = Prediction(name, quantiles(cell.real_s(OWN)), quantiles(cell.virtual_s(OWN, way)))
        errors.append(one.errors)
        asks = _asks(cell.corpus, asked)
        other = quantiles(cell.corpus.server(way).serve(asks))
        for words, real_s, own_s, error in zip(
            ("p50", "p95"), one.real_s, one.predicted_s, one.errors, strict=True
        ):
            print(f"{name:<5} {words} real {real_s:.3f} s, predicted {own_s:.3f} s: {error:+.1%}")
        print(
            f"{name:<5} {asked.arrivals} at {asked.load:g} of the capacity: p50 {other[0]:.3f} s, "
            f"p95 {other[1]:.3f} s",
            flush=True,
        )
        lost = _with_losses(cell.corpus, way, asks, asked) if asked.losses else None
        rows.append(
            {
                **asdict(one),
                "errors": one.errors,
                "router_s": cell.corpus.machine.router_s,
                "asked_s": other,
                "with_losses": lost,
            }
        )
    p50, p95 = (max(abs(error) for error in found) for found in zip(*errors, strict=True))
    return {
        "settings": {"calibration": path.name, "router_s": router_s, "asked": asdict(asked)},
        "rows": rows,
        "headline": {"p50_error": p50, "p95_error": p95},
    }


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p95."""
    p50, p95 = np.percentile(seconds, (50, 95))
    return float(p50), float(p95)


def _asks(corpus: Corpus, asked: Asked) -> list[VirtualAsk]:
    """Return requests of the five workflows in equal shares, as they are to come."""
    rate_per_s = asked.load * corpus.capacity_per_s(FIVE)
    _, asks = corpus.asks(FIVE, asked.requests, rate_per_s, asked.seed)
    if asked.arrivals in TRACES:
        came_s = [row["t"] for row in islice(data_rows(TRACES[asked.arrivals]), len(asks))]
        times_s = compressed(came_s, rate_per_s)
        asks = [replace(ask, at_s=at_s) for ask, at_s in zip(asks, times_s, strict=True)]
    return asks


def _with_losses(
    corpus: Corpus, way: Way, asks: Sequence[VirtualAsk], asked: Asked
) -> dict[str, object]:
    """Serve the same requests while nodes are lost; print and return what became of them."""
    server = corpus.server(way)
    for number in range(asked.losses):
        at_s = asks[-1].at_s * (number + 0.5) / asked.losses
        server.lose((LLM, RETRIEVAL)[number % 2], at_s, asked.restart_s)
    served = server.serve_with_failures(asks)
    p50, p95 = quantiles(served.seconds)
    longest_s = max(served.seconds)
    print(
        f"      the same with {asked.losses} nodes lost, each back after {asked.restart_s:g} s: "
        f"p50 {p50:.3f} s, p95 {p95:.3f} s, longest {longest_s:.1f} s; {served.failed} failed, "
        f"{served.retries} primitives sent again, {served.resumed} answers went on",
        flush=True,
    )
    return {
        "asked_s": (p50, p95),
        "longest_s": longest_s,
        "failed": served.failed,
        "retries": served.retries,
        "resumed": served.resumed,
    }


def compressed(came_s: Sequence[float], rate_per_s: float) -> list[float]:
    """Return arrivals with time stretched evenly, so that they have this rate on average."""
    first_s, last_s = came_s[0], came_s[-1]
    stretch = (len(came_s) - 1) / (rate_per_s * (last_s - first_s))
    return [stretch * (at_s - first_s) for at_s in came_s]
