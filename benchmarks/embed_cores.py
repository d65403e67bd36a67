"""Queries at once within an SLO, by the cores of the slow lane. (WindVE fig. 6)

One float32 lane of MiniLM on this machine's cores, from the highest down: 1, 2, ... as many as
there are; and below one core a quota of the CPU control group, 25 to 75 %. A quota is a proxy for
a part of a core, no smaller core: the lane runs at full speed and then waits for its next period.
Rows with a quota are labelled (`is_proxy`), and left out where control groups can't be written.
Queries have the paper's 75 tokens; depths are the estimator's after at most 15 bursts.
"""

import contextlib
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.support.cpu_quota import cpu_quota
from benchmarks.support.live_lanes import LiveLanes, embedding_lane
from heddle.app.profiling.lane_depths import fit_lane
from heddle.core.errors import InputError
from heddle.hosts.machine import read_machine

LENGTH: Final = 75


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    shares: tuple[float, ...]
    probes_max: int
    slos_s: tuple[float, ...] = (0.25, 0.5, 1.0)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all; returns settings, one row for each share of cores and SLO, and the headline."""
    machine = read_machine()
    shares = (0.5, 1.0) if quick else (0.25, 0.5, 0.75, 1.0, *range(2, machine.cores + 1))
    settings = Settings(tuple(float(share) for share in shares), 6 if quick else 15)
    rows: list[dict[str, Any]] = []
    for share in settings.shares:
        try:
            found = _rows(settings, share, machine.cpus)
        except InputError as error:
            print(f"{share:g} cores: left out, {error}")
            continue
        depths = ", ".join(f"{row['slo_s'] * 1e3:g} ms: {row['queries']}" for row in found)
        print(f"{share:g} cores{' (quota, a proxy)' if share < 1 else ''}: {depths}")
        rows += found
    headline = {
        f"depth_{row['cores']:g}_cores": row["queries"]
        for row in rows
        if row["slo_s"] == settings.slos_s[-1]
    }
    return {"settings": asdict(settings), "rows": rows, "headline": headline}


def _rows(settings: Settings, share: float, cpus: tuple[int, ...]) -> list[dict[str, Any]]:
    count, is_proxy = max(1, int(share)), share < 1
    with LiveLanes([embedding_lane("cpu", "float32", cpus[-count:])]) as live:
        pid = live.lanes[0].health.pid
        with cpu_quota(pid, share) if is_proxy else contextlib.nullcontext():
            fit = fit_lane(live.probe(0), settings.slos_s, LENGTH, settings.probes_max)
    known = {"cores": share, "is_proxy": is_proxy, "alpha_ms": fit.latency_slope_s * 1e3}
    return [{**known, "slo_s": slo_s, "queries": fit.depths[slo_s]} for slo_s in settings.slos_s]
