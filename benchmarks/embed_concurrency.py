"""Queries at once within an SLO: the fast lane alone, with the slow one, by fit, by stress test.

WindVE's Tables I to III and figure 4 on two lanes of this machine, processes pinned to a core each:
core 0 in bfloat16, core 1 in float32. On a CPU that emulates bfloat16 both compute in float32, and
core 1 gives its lane a third of its time, by a control group: a proxy for a slower device, about
as slow as float32 is beside bfloat16 with AMX. Bursts of queries of 75 tokens are sent at once
and the SLO is judged at the 95th percentile of the slowest answer. `alone` and `together` are
stress tests, the latter with both lanes busy; `fit` is the estimator's depth after at most 15
bursts, both lanes busy.

`gain_100ms` is the smallest gain in concurrency at SLOs of 100 ms and more, `fit_error_queries`
the largest difference between fit and stress test together, `fit_within` the share of depths
within one query or 10 %. The model of BERT-large's shape has random weights and SLOs of its own.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.support.bert_large import bert_large
from benchmarks.support.cpu_quota import cpu_quota
from benchmarks.support.lane_depths import Fitted, fit_lane, stress, within_bound
from benchmarks.support.live_lanes import LiveLanes, embedding_lane
from heddle.costs.deployment_cost import Offloading
from heddle.hosts.devices import detect_devices
from heddle.hosts.machine import read_machine

LENGTH = 75
SLOW_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Shape:
    """A model and the SLOs it is judged by."""

    name: str
    model: str | None
    slos_s: tuple[float, ...]
    repeats: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    shapes: tuple[Shape, ...]
    dtypes: tuple[str, str]
    slow_share: float


def run(quick: bool, seed: int, model: str | None = None) -> dict[str, object]:
    """Run all; returns settings, one row for each model and SLO, and the headline.

    `model`: "minilm" leaves the model of BERT-large's shape out. Nothing here is random.
    """
    minilm = Shape(
        "minilm", None, (0.1,) if quick else (0.02, 0.05, 0.1, 0.25, 0.5), 3 if quick else 12
    )
    shapes = [minilm]
    if not quick and model != "minilm":
        shapes.append(Shape("bert-large", str(bert_large()), (5.0, 10.0), 3))
    has_bfloat16 = any(device.has_fast_bfloat16 for device in detect_devices(read_machine()))
    settings = Settings(
        tuple(shapes),
        dtypes=("bfloat16" if has_bfloat16 else "float32", "float32"),
        slow_share=1.0 if has_bfloat16 else SLOW_SHARE,
    )
    rows = [row for shape in shapes for row in _measure(shape, settings)]
    ours = [row for row in rows if row["model"] == "minilm"]
    errors = [abs(row[f"fit_{lane}"] - row[lane]) for row in ours for lane in ("fast", "slow")]
    within = [
        within_bound(row[f"fit_{lane}"], row[lane]) for row in ours for lane in ("fast", "slow")
    ]
    headline = {
        "gain_100ms": min(row["gain"] for row in ours if row["slo_s"] >= 0.1),
        "fit_error_queries": max(errors),
        "fit_within": sum(within) / len(within),
        "probes": max(row["fit_probes"] for row in rows),
    }
    shown = {**asdict(settings), "shapes": [shape.name for shape in shapes]}
    return {"settings": shown, "rows": rows, "headline": headline}


def _measure(shape: Shape, settings: Settings) -> list[dict[str, Any]]:
    lanes = [
        embedding_lane(f"core{cpu}-{dtype}", dtype, cpu, shape.model)
        for cpu, dtype in enumerate(settings.dtypes)
    ]
    with ExitStack() as stack:
        live = stack.enter_context(LiveLanes(lanes))
        if settings.slow_share < 1:
            pid = live.lanes[-1].health.pid
            stack.enter_context(cpu_quota(pid, settings.slow_share))
            print(f"{lanes[-1].name} has {settings.slow_share:.0%} of its core (quota, a proxy)")
        fits = _fit_together(live, shape.slos_s)
        fast, slow = sorted(fits, key=lambda name: fits[name].latency_slope_s)
        for name in (fast, slow):
            fit = fits[name]
            print(
                f"{shape.name}, {name}: alpha {fit.latency_slope_s * 1e3:.1f} ms, beta "
                f"{fit.latency_intercept_s * 1e3:.1f} ms, {fit.probes} bursts in "
                f"{fit.seconds:.1f} s"
            )
        bound = fits[fast].latency_slope_s / fits[slow].latency_slope_s
        print(f"{shape.name}: the gain can't exceed alpha_fast/alpha_slow = {bound:.0%} by much")
        return [_row(live, shape, slo_s, fits, fast, slow) for slo_s in shape.slos_s]


def _fit_together(live: LiveLanes, slos_s: Sequence[float]) -> dict[str, Fitted]:
    """Fit both lanes at the same time, each with the other as its neighbour."""
    with ThreadPoolExecutor(len(live.ports)) as pool:
        futures = {
            port.name: pool.submit(fit_lane, live.probe(index), slos_s, LENGTH)
            for index, port in enumerate(live.ports)
        }
        return {name: future.result() for name, future in futures.items()}


def _row(
    live: LiveLanes, shape: Shape, slo_s: float, fits: dict[str, Fitted], fast: str, slow: str
) -> dict[str, Any]:
    alone = stress(live, (fast,), slo_s, LENGTH, shape.repeats)
    together = stress(live, (fast, slow), slo_s, LENGTH, shape.repeats)
    both = Offloading(together.depths[fast], together.depths[slow])
    reached = both.fast_depth + both.slow_depth
    base = alone.depths[fast]
    row = {
        "model": shape.name,
        "slo_s": slo_s,
        "alone": base,
        "fast": both.fast_depth,
        "slow": both.slow_depth,
        "fit_fast": fits[fast].depths[slo_s],
        "fit_slow": fits[slow].depths[slo_s],
        "gain": reached / base - 1 if base else 0.0,
        "peak_saving": both.peak_saving,
        "fit_probes": max(fits[fast].probes, fits[slow].probes),
        "fit_s": max(fits[fast].seconds, fits[slow].seconds),
        "stress_probes": together.probes,
        "stress_s": together.seconds,
    }
    print(
        f"{shape.name}, SLO {slo_s * 1e3:g} ms: {base} alone, {both.fast_depth} + "
        f"{both.slow_depth} together ({row['gain']:.1%} more, {both.peak_saving:.1%} devices "
        f"saved); fit {row['fit_fast']} + {row['fit_slow']}; stress test: {together.probes} "
        f"bursts, {together.seconds:.0f} s"
    )
    return row
