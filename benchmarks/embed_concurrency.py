"""Queries at once within an SLO: the fast lane alone, with the slow one, by fit, by stress test.

WindVE's Tables I to III and figure 4 on two lanes of this machine, processes pinned to a core each.
Both compute in float32, and the second one is held to SSE2: a proxy for an older core, about as
slow as float32 is beside bfloat16 with AMX. `--dtype bfloat16` compares those two, on a CPU that
has both; `--device cuda` a GPU and the CPU's other cores. Bursts of queries are sent at once and
the SLO is judged at the 95th percentile of the slowest answer. `alone` and `together` are stress
tests, the latter with both lanes busy, medians of three; `fit` is the estimator's depth after at
most 15 bursts, both lanes busy, the median of five. All take turns, a size or a fit each; a size
just beyond the SLO gets a second turn before it counts as too slow. Of 75 tokens and of large
models one each, of so few bursts that the slowest one decides.

Queries have 16 tokens in the rows of the headline: the service embeds people's questions, and
those of the developer data (NQ, HotpotQA, MedQuAD and nine others) have 14 on average with the
special ones, half of them 11 to 17; padding adds a tenth. The paper's 75 tokens, the length of its
text segments, have rows of their own. Models of the shape of bge-large (Table I) and jina (Table
II) have random weights, which tell latency and nothing else, and the paper's SLOs of 1 and 2 s;
their queries have 75 tokens beside a GPU, and 16 on two cores, where one of 75 takes too long.

`gain_100ms` is the smallest gain in concurrency at SLOs of 100 ms and more. By eq. 6 the cost
of a peak falls with the sum of the depths, so the gain is bound by what the slow lane holds alone
over what the fast one does: `gain_over_bound` is the gain over that at the longest SLO, where one
query is the smallest share, and `reached_over_bound` the smallest share of that sum that both reach
together. `cpu_before` and `cpu_after` are the share of the CPU that the lanes use with one and
with both (§V-B). `fit_error_queries` is the largest difference between fit and stress test
together, `fit_within` the share of depths within one query or 10 %, `single_fit_within` the same of
each fit by itself. All are of the first part: MiniLM and questions unless a model is named.
`gain_100ms_paper_length` is the same gain for 75 tokens.

`--model minilm`, `--model bge` and `--model jina` run one of the models.
"""

import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.support.cpu_use import cpu_used
from benchmarks.support.lane_depths import Fits, take_turns, within_bound
from benchmarks.support.lane_pair import LanePair
from benchmarks.support.live_lanes import LiveLanes
from benchmarks.support.shaped_encoders import bge, jina
from heddle.app.assembly.lane_probe import text_of
from heddle.app.profiling.lane_depths import Fitted, Stressed, StressTest, fit_lanes
from heddle.core.errors import InputError
from heddle.costs.deployment_cost import Offloading
from heddle.hosts.machine import read_machine

QUESTION_TOKENS: Final = 16
PAPER_TOKENS: Final = 75
SLOS_S: Final = (0.02, 0.05, 0.1, 0.25, 0.5)
# Bursts of each size in a stress test: with fewer than 20 the slowest one is the 95th percentile.
REPEATS: Final = 20
STRESS_TESTS: Final = 3
FITS: Final = 5
MODELS: Final = ("minilm", "bge", "jina")
PAPER_SLOS_S: Final = (1.0, 2.0)
USE_BURSTS: Final = 5  # one after another, while the use of the CPU is counted
DTYPES: Final = ("float32", "bfloat16")
DEVICES: Final = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Part:
    """A model, the length of its queries, and the SLOs that it is judged by."""

    model: str
    length: int
    slos_s: tuple[float, ...]
    repeats: int
    stress_tests: int = 1
    fits: int = 1


FULL: Final[tuple[Part, ...]] = (
    Part("minilm", QUESTION_TOKENS, SLOS_S, REPEATS, STRESS_TESTS, FITS),
    Part("minilm", PAPER_TOKENS, SLOS_S, 10),
    Part("bge", QUESTION_TOKENS, PAPER_SLOS_S, 3),
    Part("jina", QUESTION_TOKENS, PAPER_SLOS_S, 3),
)
ON_GPU: Final[tuple[Part, ...]] = (
    *FULL[:2],
    Part("bge", PAPER_TOKENS, PAPER_SLOS_S, 5),
    Part("jina", PAPER_TOKENS, PAPER_SLOS_S, 5),
)
QUICK: Final[tuple[Part, ...]] = (
    Part("minilm", QUESTION_TOKENS, (0.1,), 3, 1, 2),
    Part("bge", QUESTION_TOKENS, (1.0,), 1),
    Part("jina", QUESTION_TOKENS, (1.0,), 1),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is run."""

    parts: tuple[Part, ...]
    pair: LanePair


def run(
    quick: bool,
    seed: int,
    model: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
) -> dict[str, object]:
    """Run all; returns settings, one row for each part and SLO, and the headline.

    Nothing here is random.

    Raises:
        InputError: another model, dtype or device than those, or this machine hasn't the lanes.
    """
    for name, value, known in (
        ("model", model, MODELS),
        ("dtype", dtype, DTYPES),
        ("device", device, DEVICES),
    ):
        if value not in (None, *known):
            raise InputError(f"--{name} {value}: choose one of {', '.join(known)}, or leave it out")
    models = MODELS[:1] if quick else MODELS
    wanted = models if model is None else (model,)
    offered = QUICK if quick else FULL if device != "cuda" else ON_GPU
    parts = tuple(part for part in offered if part.model in wanted)
    settings = Settings(parts, LanePair.here(dtype or "float32", device or "cpu"))
    rows = [row for part in settings.parts for row in _measure(part, settings.pair)]
    headline = _headline([row for row in rows if row["kind"] == "depths"])
    return {"settings": asdict(settings), "rows": rows, "headline": headline}


def _measure(part: Part, pair: LanePair) -> list[dict[str, Any]]:
    made = {"bge": bge, "jina": jina}.get(part.model)
    with pair.started(None if made is None else str(made())) as live:
        lines = fit_lanes(live.probes, part.slos_s, part.length)
        known = {"model": part.model, "tokens": part.length}
        rows = [{"kind": "fit", **known, **_line(name, lines[name])} for name in pair.names]
        bound = rows[0]["alpha_s"] / rows[1]["alpha_s"] if rows[1]["alpha_s"] else 0.0
        print(f"{part.model}, {part.length} tokens: gains are bound by alpha's ratio, {bound:.0%}")
        for slo_s in part.slos_s:
            rows.append({"kind": "depths", **known, **_depths(live, part, slo_s, pair.names)})
        return rows


def _line(name: str, fit: Fitted) -> dict[str, Any]:
    """Return a lane's line and the bursts behind it. (fig. 4)"""
    alpha_s, beta_s = fit.latency_slope_s, fit.latency_intercept_s
    print(
        f"{name}: alpha {alpha_s * 1e3:.1f} ms, beta {beta_s * 1e3:.1f} ms, "
        f"{len(fit.bursts)} bursts in {fit.seconds:.1f} s"
    )
    return {"lane": name, "alpha_s": alpha_s, "beta_s": beta_s, "bursts": fit.bursts}


def _depths(live: LiveLanes, part: Part, slo_s: float, names: tuple[str, str]) -> dict[str, Any]:
    fast, slow = names
    probes = live.probes
    tests = [
        tuple(
            StressTest({name: probes[name] for name in on}, slo_s, part.length, part.repeats)
            for on in ((fast,), (slow,), names)
        )
        for _ in range(part.stress_tests)
    ]
    fits = Fits(probes, slo_s, part.length, part.fits)
    take_turns((*itertools.chain(*tests), fits))
    alone, slow_alone, together = ([t.found for t in kind] for kind in zip(*tests, strict=True))
    both = Offloading(_median_depth(together, fast), _median_depth(together, slow))
    reached = both.fast_depth + both.slow_depth
    base = _median_depth(alone, fast)
    bound = Offloading(base, _median_depth(slow_alone, slow))
    row = {
        "slo_s": slo_s,
        "alone": base,
        "slow_alone": bound.slow_depth,
        "fast": both.fast_depth,
        "slow": both.slow_depth,
        "fit_fast": statistics.median_low(fits.depths(fast)),
        "fit_slow": statistics.median_low(fits.depths(slow)),
        "fits_fast": fits.depths(fast),
        "fits_slow": fits.depths(slow),
        "gain": reached / base - 1 if base else 0.0,
        "gain_bound": bound.concurrency_gain,
        "peak_saving": both.peak_saving,
        "cpu_before": _cpu_used(live, part.length, {fast: base}),
        "cpu_after": _cpu_used(live, part.length, {fast: both.fast_depth, slow: both.slow_depth}),
        "fit_probes": max(len(one.bursts) for fit in fits.found for one in fit.values()),
        "fit_s": max(one.seconds for fit in fits.found for one in fit.values()),
        "alone_depths": [test.depths[fast] for test in alone],
        "slow_alone_depths": [test.depths[slow] for test in slow_alone],
        "together_depths": [dict(test.depths) for test in together],
        "stress_probes": statistics.median_low(test.probes for test in together),
        "stress_s": statistics.median(test.seconds for test in together),
    }
    print(
        f"SLO {slo_s * 1e3:g} ms: {base} alone, {both.fast_depth} + {both.slow_depth} together "
        f"({row['gain']:.1%} more of at most {row['gain_bound']:.1%}, {both.peak_saving:.1%} "
        f"devices saved; CPU used {row['cpu_before']:.0%}, then {row['cpu_after']:.0%}); "
        f"fit {row['fit_fast']} + {row['fit_slow']}; stress test: {row['stress_probes']} bursts, "
        f"{row['stress_s']:.0f} s"
    )
    return row


def _cpu_used(live: LiveLanes, length: int, depths: Mapping[str, int]) -> float:
    """Return the share of this machine's CPU that lanes use while each gets full bursts."""
    probes = live.probes
    busy = {name: [text_of(length)] * depth for name, depth in depths.items() if depth}
    if not busy:
        return 0.0

    def work() -> None:
        with ThreadPoolExecutor(len(busy)) as pool:
            for _ in range(USE_BURSTS):
                # The next bursts are sent after the last of these, as in the paper.
                list(pool.map(lambda name: probes[name].burst(busy[name]), busy))

    pids = [os.getpid(), *(lane.health.pid for lane in live.lanes if lane.health.pid is not None)]
    return cpu_used(pids, read_machine().cores, work)


def _median_depth(tests: Sequence[Stressed], name: str) -> int:
    return statistics.median_low(test.depths[name] for test in tests)


def _headline(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the figures of the first part, and the gain of MiniLM at the paper's length."""
    first = [row for row in rows if _part_of(row) == _part_of(rows[0])]
    lanes = [(row, lane) for row in first for lane in ("fast", "slow")]
    depths = [(row[f"fit_{lane}"], row[lane]) for row, lane in lanes]
    singles = [(fit, row[lane]) for row, lane in lanes for fit in row[f"fits_{lane}"]]
    last = max(first, key=lambda row: float(row["slo_s"]))
    headline = {
        "gain_100ms": _gain(first),
        "gain_over_bound": last["gain"] / last["gain_bound"] if last["gain_bound"] else 0.0,
        "reached_over_bound": min(map(_reached, _long(first))),
        "cpu_before": last["cpu_before"],
        "cpu_after": last["cpu_after"],
        "fit_error_queries": max(abs(fit - found) for fit, found in depths),
        "fit_within": _share_within(depths),
        "single_fit_within": _share_within(singles),
        "probes": max(row["fit_probes"] for row in rows),
    }
    paper = [row for row in rows if _part_of(row) == ("minilm", PAPER_TOKENS)]
    if paper:
        headline["gain_100ms_paper_length"] = _gain(paper)
    return headline


def _share_within(depths: Sequence[tuple[int, int]]) -> float:
    return sum(within_bound(fit, found) for fit, found in depths) / len(depths)


def _part_of(row: dict[str, Any]) -> tuple[str, int]:
    return row["model"], row["tokens"]


def _gain(rows: Sequence[dict[str, Any]]) -> float:
    """Return the smallest gain at SLOs of 100 ms and more."""
    return min(float(row["gain"]) for row in _long(rows))


def _long(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["slo_s"] >= 0.1]


def _reached(row: dict[str, Any]) -> float:
    """Return the depths of both lanes together over the sum of their depths alone."""
    alone = row["alone"] + row["slow_alone"]
    return float((row["fast"] + row["slow"]) / alone) if alone else 0.0
