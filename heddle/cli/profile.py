"""`heddle profile`: what each embedding lane costs, how deep it may be queued, what that saves.

With --together the depths are refined while all lanes are loaded at once. With --memory instead:
how KV pages and the index share the memory.
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from heddle.app.assembly.embedding_lanes import (
    QUERY_TOKENS,
    EmbeddingLane,
)
from heddle.app.assembly.lane_probe import TOKENS_AROUND, LaneProbe
from heddle.app.assembly.server_plan import plan_server
from heddle.app.embedding_depths import DepthTable, MeasuredOn, depths_record
from heddle.app.models.embedder_source import open_embedder
from heddle.app.profiling.lane_depths import QUERIES_MAX, depth_table
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import add_json
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, server_config
from heddle.cli.profiles.depth_lines import table_lines
from heddle.cli.profiles.memory import MODEL_FIELDS, profile_memory
from heddle.core.errors import InputError
from heddle.costs.batch_cost import LaneDepth
from heddle.costs.deployment_cost import Deployment, Offloading
from heddle.costs.depth_probing import DepthProbing
from heddle.hosts.machine import read_machine
from heddle.hosts.process import start_lanes
from heddle.runtime.clock import SystemClock

REPEATS: Final = 5  # bursts of each size in a stress test: the slowest one decides
# The settings that decide which lanes embed; the LLM isn't run, but takes its share of the cores.
LANE_FIELDS: Final = ("generator", "embedder", "dtype", "embedding_lanes")
SLOS_MS: Final = "100,250,500,1000"


@dataclass(frozen=True, slots=True)
class LaneProfile:
    """A lane's α and β for queries of one length, and its depth under each SLO."""

    lane: str
    what: str
    latency_slope_s: float
    latency_intercept_s: float
    probes: int
    seconds: float
    depths: tuple[LaneDepth, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """What the cost model is asked for: queries, and what a device costs; None = no price."""

    tokens: int
    peak: int
    rate: float
    devices: int = 1
    price: float | None = None


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--slo",
        type=slos_of,
        default=SLOS_MS,
        metavar="MS[,MS...]",
        help=f"time limits of a query [ms]; default: {SLOS_MS}",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=QUERY_TOKENS,
        metavar="N",
        help=f"tokens of a query; default: {QUERY_TOKENS}",
    )
    parser.add_argument(
        "--peak",
        type=int,
        default=1000,
        metavar="N",
        help="peak of queries at once, for the cost model; default: 1000",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=100.0,
        metavar="N",
        help="average queries per second, for the cost model; default: 100",
    )
    parser.add_argument(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="devices of an instance, for the cost model; default: 1",
    )
    parser.add_argument(
        "--price",
        type=float,
        metavar="N",
        help="price of a device, in any currency: prints costs as well",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="stress each lane alone and refine the depths with all lanes loaded at once: "
        "minutes; --json FILE writes them for --embedding-depths",
    )
    parser.add_argument(
        "--memory",
        type=Path,
        metavar="DIR",
        help="measure instead how KV pages and the index of this corpus share the memory",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="how long each rate is tried, with --memory; default: 10, about 5 minutes in all",
    )
    add_json(parser)
    add_config(parser, only=(*LANE_FIELDS, *MODEL_FIELDS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Time every lane and print the figures."""
    if options.memory is not None:
        return profile_memory(options)
    slos_s: tuple[float, ...] = options.slo
    config = server_config(options, only=LANE_FIELDS, index=Path())
    if options.peak < 1:
        raise InputError(f"--peak must be at least 1, got {options.peak}")
    if not 0 < options.rate < math.inf:
        raise InputError(f"--rate must be above 0 queries a second, got {options.rate:g}")
    limit, shortest = open_embedder(config.embedder).max_tokens, TOKENS_AROUND + 1
    if not shortest <= options.tokens <= limit:
        raise InputError(f"--tokens must be from {shortest} to {limit}, the model's length")
    if options.devices < 1:
        raise InputError(f"--devices must be at least 1, got {options.devices}")
    if options.price is not None and not 0 < options.price < math.inf:
        raise InputError(f"--price must be above 0, got {options.price:g}")
    lanes, model, measured_on = _lanes(config)
    tables: tuple[DepthTable, ...] = ()
    if options.together:
        profiles, tables = profile_together(lanes, model, slos_s, options.tokens)
    else:
        profiles = [profile_lane(lane, model, slos_s, options.tokens) for lane in lanes]
    profiles.sort(key=lambda profile: profile.latency_slope_s)
    use = Use(options.tokens, options.peak, options.rate, options.devices, options.price)
    print("\n".join(lines(profiles, slos_s, use, tables)))
    if options.json is not None:
        record = {
            "lanes": [asdict(profile) for profile in profiles],
            **depths_record(tables, options.tokens, measured_on),
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def slos_of(text: str) -> tuple[float, ...]:
    """Return time limits from a list of milliseconds, the shortest first [s].

    Raises:
        ArgumentTypeError: it isn't one.
    """
    try:
        slos_s = tuple(sorted({float(part) / 1e3 for part in text.split(",")}))
    except ValueError:
        slos_s = (math.nan,)
    if not all(0 < slo_s < math.inf for slo_s in slos_s):
        raise argparse.ArgumentTypeError(
            f"{text!r} are no time limits; write milliseconds above 0, such as {SLOS_MS}"
        )
    return slos_s


def lines(
    profiles: Sequence[LaneProfile],
    slos_s: Sequence[float],
    use: Use,
    tables: Sequence[DepthTable] = (),
) -> Iterator[str]:
    """Yield the report: lanes, depths, and the cost model: devices for a peak and for a rate.

    A lane's throughput is taken as its depth each SLO: full bursts, one after another. Depths are
    the fine-tuned ones where there are tables.
    """
    for profile in profiles:
        yield (
            f"{profile.lane} ({profile.what})\n  alpha {profile.latency_slope_s * 1e3:.2f} "
            f"ms/query of {use.tokens} tokens, beta {profile.latency_intercept_s * 1e3:.2f} ms, "
            f"from {profile.probes} bursts in {profile.seconds:.1f} s"
        )
        for depth in profile.depths:
            yield f"  {depth.line(profile.lane)}"
    for table in tables:
        yield from table_lines(table)
    for number, slo_s in enumerate(slos_s):
        depths = [profile.depths[number].queries for profile in profiles]
        if tables:
            depths = [tables[number].lanes[profile.lane].fine_tuned for profile in profiles]
        if depths[0]:
            yield f"{slo_s * 1e3:g} ms: {'; '.join(_needs(depths[0], sum(depths[1:]), slo_s, use))}"


def _needs(fast: int, slow: int, slo_s: float, use: Use) -> Iterator[str]:
    """Yield what a peak and a rate need of the fast lane, without and with the others. (eqs. 5, 6)

    Args:
        fast: queries that the fast lane holds.
        slow: queries that the others hold.
        slo_s: the time limit [s].
        use: what is asked of them.
    """
    deployment, both = Deployment(use.devices), fast + slow
    needed = deployment.devices_for_peak(use.peak, fast)
    yield f"a peak of {use.peak} queries needs {needed} of the fast lane"
    if slow:
        offloading = Offloading(fast, slow)
        fewer = needed - deployment.devices_for_peak(use.peak, both)
        yield (
            f"with the others beside each, {fewer} fewer ({offloading.peak_saving:.1%}), "
            f"{offloading.concurrency_gain:.1%} more queries at once"
        )
    others = ", with the others {}".format if slow else "".format
    load = deployment.cost_by_throughput(use.rate, fast / slo_s)
    less = deployment.cost_by_throughput(use.rate, both / slo_s)
    yield f"{use.rate:g} queries/s on average need {load:.2f}{others(f'{less:.2f}')}"
    if use.price is not None:
        priced = Deployment(use.devices, use.price)
        peak, less_peak = (priced.cost_by_concurrency(use.peak, depth) for depth in (fast, both))
        rate, less_rate = (priced.cost_by_throughput(use.rate, d / slo_s) for d in (fast, both))
        yield f"the peak costs {peak:.2f}{others(f'{less_peak:.2f}')}"
        yield f"the rate costs {rate:.2f}{others(f'{less_rate:.2f}')}"


def _lanes(config: ServerConfig) -> tuple[tuple[EmbeddingLane, ...], str, MeasuredOn]:
    """Return a server's lanes here, their model's directory, and the embedder and processor."""
    plan = plan_server(config, None, read_machine())
    assert plan.encoder is not None, "a plan with an index has an embedder"
    measured_on = MeasuredOn(plan.encoder.name, plan.machine.cpu_model)
    return plan.embedders, str(plan.encoder.path), measured_on


def profile_lane(
    lane: EmbeddingLane, model: str, slos_s: tuple[float, ...], tokens: int
) -> LaneProfile:
    """Start a lane, time bursts of queries on it, and end it.

    Depths are those that 95 % of bursts keep.

    Raises:
        EngineError, ConfigError: it can't start, or doesn't answer.
    """
    (process,) = start_lanes([lane.spec(model)])
    with process:
        return _profile(lane, LaneProbe(process.ports[lane.name], SystemClock()), slos_s, tokens)


def profile_together(
    lanes: Sequence[EmbeddingLane], model: str, slos_s: tuple[float, ...], tokens: int
) -> tuple[list[LaneProfile], tuple[DepthTable, ...]]:
    """Start all lanes, profile each while the others rest, then find depths with all of them busy.

    Raises:
        EngineError, ConfigError: one can't start, or doesn't answer.
    """
    clock = SystemClock()
    with ExitStack() as ending:
        processes = start_lanes([lane.spec(model) for lane in lanes])
        for process in processes:
            ending.callback(process.close)
        pairs = zip(lanes, processes, strict=True)
        probes = {lane.name: LaneProbe(process.ports[lane.name], clock) for lane, process in pairs}
        profiles = [_profile(lane, probes[lane.name], slos_s, tokens) for lane in lanes]
        tables = []
        for number, slo_s in enumerate(slos_s):
            fitted = {profile.lane: profile.depths[number].queries for profile in profiles}
            tables.append(depth_table(probes, fitted, slo_s, tokens, REPEATS))
    return profiles, tuple(tables)


def _profile(
    lane: EmbeddingLane, probe: LaneProbe, slos_s: tuple[float, ...], tokens: int
) -> LaneProfile:
    probing = DepthProbing(slos_s, tokens, QUERIES_MAX)
    probe.find_depths(probing)
    cost, margin = probing.cost(), probing.margin()
    return LaneProfile(
        lane.name,
        lane.line().partition(": ")[2],
        cost.latency_slope_s(tokens),
        cost.latency_intercept_s,
        len(probing.probes),
        probing.seconds,
        tuple(probing.depth(slo_s, margin=margin) for slo_s in slos_s),
    )
