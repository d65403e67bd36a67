"""`heddle simulate cell --calibrate RUN.json`: a cell's latencies, by what its work costs.

A cell is one runtime with its lanes. From a run of `heddle bench workflows` come the requests' work
and the engines' costs; its latencies are not used, but predicted, at the run's own arrivals. Beside
the engines the runtime's cycles cost time, one after the other.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.support.data import rows as data_rows
from benchmarks.virtual.calibration import Calibration, RealRun
from benchmarks.virtual.contenders import OWN, WAYS
from benchmarks.virtual.corpora import RECORD
from benchmarks.virtual.load import Corpus
from benchmarks.virtual.scripts import FIVE
from benchmarks.virtual.server import Way
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
    """What is predicted beside the run: a share of its capacity, and how requests come."""

    arrivals: str
    load: float
    requests: int
    seed: int


def predicted(path: Path, router_s: float, asked: Asked) -> dict[str, object]:
    """Calibrate a cell by a run, predict the run's latencies, and those of what is asked.

    Args:
        path: a result of `heddle bench workflows`.
        router_s: what a cycle of the runtime costs [s].
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
        cell.corpus.machine = replace(cell.corpus.machine, router_s=router_s)
        one = Prediction(name, quantiles(cell.real_s(OWN)), quantiles(cell.virtual_s(OWN, way)))
        errors.append(one.errors)
        other = quantiles(_asked_s(cell.corpus, way, asked))
        for words, real_s, own_s, error in zip(
            ("p50", "p95"), one.real_s, one.predicted_s, one.errors, strict=True
        ):
            print(f"{name:<5} {words} real {real_s:.3f} s, predicted {own_s:.3f} s: {error:+.1%}")
        print(
            f"{name:<5} {asked.arrivals} at {asked.load:g} of the capacity: p50 {other[0]:.3f} s, "
            f"p95 {other[1]:.3f} s",
            flush=True,
        )
        rows.append({**asdict(one), "errors": one.errors, "asked_s": other})
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


def _asked_s(corpus: Corpus, way: Way, asked: Asked) -> list[float]:
    """Serve the five workflows in equal shares; return how long each request took [s]."""
    rate_per_s = asked.load * corpus.capacity_per_s(FIVE)
    _, asks = corpus.asks(FIVE, asked.requests, rate_per_s, asked.seed)
    if asked.arrivals in TRACES:
        came_s = [row["t"] for row in islice(data_rows(TRACES[asked.arrivals]), len(asks))]
        times_s = compressed(came_s, rate_per_s)
        asks = [replace(ask, at_s=at_s) for ask, at_s in zip(asks, times_s, strict=True)]
    return corpus.server(way).serve(asks)


def compressed(came_s: Sequence[float], rate_per_s: float) -> list[float]:
    """Return arrivals with time stretched evenly, so that they have this rate on average."""
    first_s, last_s = came_s[0], came_s[-1]
    stretch = (len(came_s) - 1) / (rate_per_s * (last_s - first_s))
    return [stretch * (at_s - first_s) for at_s in came_s]
