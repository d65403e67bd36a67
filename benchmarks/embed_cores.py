"""Queries at once within an SLO, by the cores of the slow lane. (WindVE fig. 6)

One float32 lane of MiniLM on this machine's cores: 1, 2, ... as many as there are; and below one
core a quota of the CPU control group, 25 to 75 %. A quota is a proxy for a part of a core, no
smaller core: the lane runs at full speed and then waits for its next period. Rows with a quota
are labelled, and left out where control groups can't be written.
"""

import contextlib
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.support.cpu_quota import cpu_quota
from benchmarks.support.lane_depths import fit_lane
from benchmarks.support.live_lanes import LiveLanes, embedding_lane
from heddle.core.errors import InputError
from heddle.core.primitives import PrimitiveKind
from heddle.engines.embedding.build import EmbeddingSettings
from heddle.hosts.lane_spec import EngineSpec, LaneSpec
from heddle.hosts.machine import read_machine

LENGTH: Final = 75


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    shares: tuple[float, ...]
    probes_max: int
    slos_s: tuple[float, ...] = (0.25, 0.5, 1.0)


def run(quick: bool, seed: int) -> dict[str, object]:
    """Run all; returns settings, one row for each share of cores, and the headline."""
    machine = read_machine()
    shares = (0.5, 1.0) if quick else (0.25, 0.5, 0.75, 1.0, *range(2, machine.cores + 1))
    settings = Settings(tuple(float(share) for share in shares), 6 if quick else 15)
    rows = []
    for share in settings.shares:
        try:
            rows.append(_row(settings, share, machine.cpus))
        except InputError as error:
            print(f"{share:g} cores: left out, {error}")
            continue
        depths = ", ".join(f"{slo_s * 1e3:g} ms: {rows[-1][slo_s]}" for slo_s in settings.slos_s)
        print(f"{share:g} cores{' (quota, a proxy)' if share < 1 else ''}: {depths}")
    headline = {f"depth_{row['cores']:g}_cores": row[settings.slos_s[-1]] for row in rows}
    named = [{str(key): value for key, value in row.items()} for row in rows]
    return {"settings": asdict(settings), "rows": named, "headline": headline}


def _row(settings: Settings, share: float, cpus: tuple[int, ...]) -> dict[Any, Any]:
    count = max(1, int(share))
    with LiveLanes([_lane(cpus[-count:])]) as live:
        pid = live.lanes[0].health.pid
        with cpu_quota(pid, share) if share < 1 else contextlib.nullcontext():
            fit = fit_lane(live.probe(0), settings.slos_s, LENGTH, settings.probes_max)
    return {"cores": share, "alpha_ms": fit.latency_slope_s * 1e3, **fit.depths}


def _lane(cpus: tuple[int, ...]) -> LaneSpec:
    if len(cpus) == 1:
        return embedding_lane("cpu", "float32", cpus[0])
    settings = EmbeddingSettings(dtype="float32", device="cpu", threads=len(cpus), cache_bytes=0)
    build = "heddle.engines.embedding.build:build_engine"
    engine = EngineSpec("cpu", build, settings, 4096, frozenset({PrimitiveKind.EMBEDDING}))
    return LaneSpec("cpu", (engine,), cpus, len(cpus))
