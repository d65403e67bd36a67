"""`heddle simulate pool`: how many vector GPUs a load needs, and where they should stand.

`heddle simulate cell`: the latencies of one runtime with its lanes, by a run that was measured.
"""

import argparse
import importlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Final

from heddle.cli.arguments import add_json
from heddle.cli.command_parser import CommandParser
from heddle.core.cache import write_json
from heddle.core.errors import InputError
from heddle.simulator.line_plot import Panel, line_plot
from heddle.simulator.placement import NODE_GPUS, Cluster, Placement
from heddle.simulator.rag_cluster import Load, Outcome, RagCluster, answer_s
from heddle.simulator.roofline import (
    SearchShape,
    decode_step_s,
    extend_s,
    kv_tokens_max,
    prefill_s,
    saturation,
    utilisation,
)

LOADS: Final = (0.3, 0.6, 0.85)  # of what the prefill nodes can take in the pool placement
CELL: Final = "cell"
ERROR_MAX: Final = 0.15  # of a prediction, beyond which a cell's model is not to be trusted
POOL_GPUS_MAX: Final = 64
ALWAYS_UNDER_WAY: Final = 0.5  # a run that answers a smaller share of its prompts is overloaded
ANSWERS_LONG: Final = 4  # a run, by default
ANSWERS_LONG_MIN: Final = 3  # so that more than ALWAYS_UNDER_WAY come to their end
DURATION_S_MIN: Final = 5.0


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "what",
        choices=["pool", CELL],
        help="model a pool of vector-search GPUs beside an LLM, or (in a checkout) a runtime with "
        "its lanes as a benchmark's run measured them",
    )
    cluster = parser.add_argument_group("the cluster")
    add = cluster.add_argument
    add("--prefill-nodes", type=int, default=8, metavar="N", help="nodes with 8 GPUs; default: 8")
    add("--decode-nodes", type=int, default=16, metavar="N", help="nodes with 8 GPUs; default: 16")
    add(
        "--pool-gpus",
        type=int,
        metavar="N",
        help="GPUs of the pool; default: the fewest that keep the SLO; where no number "
        "does, as many as decode nodes",
    )
    add(
        "--vectors", type=float, default=1e8, metavar="N", help="vectors in the index; default: 1e8"
    )
    add("--extends", type=int, default=65, metavar="N", help="graph steps of a search; default: 65")
    loads = parser.add_argument_group("the load")
    load = loads.add_argument
    load(
        "--prompts-per-s",
        type=float,
        nargs="+",
        metavar="X",
        help="arrival rate; default: three rates",
    )
    load(
        "--prompt-tokens",
        type=int,
        default=1000,
        metavar="N",
        help="tokens of a prompt; default: 1000",
    )
    load(
        "--answer-tokens",
        type=int,
        default=256,
        metavar="N",
        help="tokens of an answer; default: 256",
    )
    load(
        "--probe-every",
        type=int,
        default=8,
        metavar="N",
        help="tokens between searches; default: 8",
    )
    load(
        "--duration-s",
        type=float,
        metavar="S",
        help="simulated time; default: four times an answer's",
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed; default: 0")
    slos = parser.add_argument_group("the SLO")
    slo = slos.add_argument
    slo(
        "--ttft-s", type=float, default=1.0, metavar="S", help="95th percentile of TTFT; default: 1"
    )
    slo(
        "--stall",
        type=float,
        default=0.05,
        metavar="X",
        help="stalled share of decoding; default: 0.05",
    )
    slo("--plot", type=Path, metavar="FILE.svg", help="draw the results")
    cells = parser.add_argument_group("the cell")
    cell = cells.add_argument
    cell("--calibrate", type=Path, metavar="RUN.json", help="result of `heddle bench workflows`")
    cell(
        "--router-s",
        type=float,
        metavar="S",
        help="what a cycle of the runtime takes; default: what its process computed in the run",
    )
    cell(
        "--arrivals",
        choices=("poisson", "ragpulse", "azure"),
        default="poisson",
        help="how requests come: drawn, or as in a trace, with time compressed; default: poisson",
    )
    cell(
        "--load",
        type=float,
        default=0.8,
        metavar="X",
        help="share of asyncio_fifo's capacity on the cell; default: 0.8",
    )
    cell("--requests", type=int, default=200, metavar="N", help="how many come; default: 200")
    cell(
        "--losses",
        type=int,
        default=0,
        metavar="N",
        help="how often a node is lost meanwhile, of the LLM lane and of the lane that searches in "
        "turns; default: 0",
    )
    cell(
        "--restart-s",
        type=float,
        default=5.0,
        metavar="S",
        help="until a lost lane is back, from when its loss is noticed (2 s); default: 5",
    )
    add_json(parser)
    of_pool = _defaults(cluster) | _defaults(loads) | _defaults(slos)
    parser.set_defaults(run=run, of_pool=of_pool, of_cell=_defaults(cells))


def _defaults(group: argparse._ArgumentGroup) -> dict[str, object]:
    """Return the default of each option of a group."""
    return {action.dest: action.default for action in group._group_actions}


def run(options: argparse.Namespace) -> int:
    """Simulate a cell, or every placement at every load; print, draw and write what came of it."""
    if options.what == CELL:
        return _cell(options)
    _refuse_given(options, options.of_cell)
    _check(options)
    print("MODELLED: rooflines of data sheets, derated; the pool's scheduler is the real one.\n")
    cluster = _cluster(options)
    print(*_rooflines(cluster, options.prompt_tokens + options.answer_tokens), sep="\n")
    rates = options.prompts_per_s or _three_loads(cluster, options.prompt_tokens)
    rows, answers = [], []
    for rate in rates:
        load = _load(cluster, options, rate)
        print(f"\n{rate:.3g} prompts/s for {load.duration_s:.0f} s")
        gpus, answer = _answer(cluster, load, options)
        for placement in Placement:
            pool_gpus = options.pool_gpus or gpus or options.decode_nodes
            placed = replace(cluster, placement=placement, pool_gpus=pool_gpus)
            outcome = RagCluster(placed, load).run()
            rows.append(_row(placed, rate, outcome))
            print(_line(placed, outcome))
        print(answer)
        answers.append({"prompts_per_s": rate, "pool_gpus_needed": gpus})
    if options.plot is not None:
        options.plot.write_text(_plot(rates, rows), encoding="utf-8")
        print(f"\ndrawn: {options.plot}")
    if options.json is not None:
        write_json(options.json, {"rows": rows, "answers": answers})
    return 0


def _cell(options: argparse.Namespace) -> int:
    """Predict the run that calibrates the cell, and what is asked; 1 = it is off by too much."""
    _refuse_given(options, options.of_pool)
    if options.calibrate is None:
        raise InputError("simulate cell needs --calibrate RUN.json, of `heddle bench workflows`")
    for name in ("router_s", "load", "requests"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise InputError(f"--{name.replace('_', '-')}: need more than 0")
    if options.losses < 0 or options.restart_s < 0:
        raise InputError("--losses and --restart-s: need at least 0")
    try:
        module = importlib.import_module("benchmarks.virtual.cell_prediction")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "benchmarks":
            raise
        raise InputError(
            "simulate cell is for a checkout: its folder benchmarks/ isn't here"
        ) from error
    asked = module.Asked(
        options.arrivals,
        options.load,
        options.requests,
        options.seed,
        options.losses,
        options.restart_s,
    )
    found = module.predicted(options.calibrate, options.router_s, asked)
    for name, value in found["headline"].items():
        print(f"{name}: {value:.6g}")
    if options.json is not None:
        write_json(options.json, found)
    if max(found["headline"].values()) <= ERROR_MAX:
        return 0
    print(f"off by more than {ERROR_MAX:.0%}: don't plan by it")
    return 1


def _refuse_given(options: argparse.Namespace, names: Mapping[str, object]) -> None:
    """Refuse an option that the other simulation has."""
    for name, default in names.items():
        if getattr(options, name) != default:
            raise InputError(
                f"--{name.replace('_', '-')} is no option of `heddle simulate {options.what}`"
            )


def _check(options: argparse.Namespace) -> None:
    for name in (
        "vectors",
        "extends",
        "prompt_tokens",
        "answer_tokens",
        "probe_every",
        "ttft_s",
        "stall",
    ):
        if not getattr(options, name) > 0:
            raise InputError(f"--{name.replace('_', '-')}: need more than 0")
    if options.plot is not None and options.plot.suffix.lower() != ".svg":
        raise InputError(f"--plot: it is drawn as SVG, so name a .svg file, not {options.plot}")
    if any(not rate > 0 for rate in options.prompts_per_s or ()):
        raise InputError("--prompts-per-s: need more than 0")


def _cluster(options: argparse.Namespace) -> Cluster:
    return Cluster(
        Placement.POOL,
        prefill_nodes=options.prefill_nodes,
        decode_nodes=options.decode_nodes,
        pool_gpus=1 if options.pool_gpus is None else options.pool_gpus,
        search=SearchShape(vectors=options.vectors, extends=options.extends),
    )


def _load(cluster: Cluster, options: argparse.Namespace, prompts_per_s: float) -> Load:
    """Return a load that lasts several answers.

    Raises:
        InputError: its length is given, and too short for its answers.
    """
    load = Load(
        prompts_per_s,
        prompt_tokens=options.prompt_tokens,
        answer_tokens=options.answer_tokens,
        probe_every=options.probe_every,
        seed=options.seed,
    )
    one_s = answer_s(cluster, load)
    least_s = ANSWERS_LONG_MIN * one_s
    if options.duration_s is None:
        return replace(load, duration_s=max(DURATION_S_MIN, ANSWERS_LONG * one_s))
    if not options.duration_s >= least_s:
        raise InputError(
            f"--duration-s {options.duration_s:g}: an answer takes {one_s:.2g} s at "
            f"{prompts_per_s:.3g} prompts/s, so give at least {math.ceil(least_s)}"
        )
    return replace(load, duration_s=options.duration_s)


def _three_loads(cluster: Cluster, prompt_tokens: int) -> list[float]:
    prompts_per_s = cluster.prefill_nodes / cluster.prompt_s(prompt_tokens)
    return [share * prompts_per_s for share in LOADS]


def _rooflines(cluster: Cluster, context: int) -> Iterator[str]:
    """Yield what each stage reaches with the largest batch that it can have. (Trinity §2)"""
    gpu, llm, search = cluster.gpu, cluster.llm, cluster.search
    token_flops = 2 * llm.parameters_active
    stages: dict[str, tuple[Callable[[int], float], int]] = {
        "prefill (tokens)": (
            lambda n: utilisation(
                gpu, token_flops * n, prefill_s(gpu, llm, n, NODE_GPUS) * NODE_GPUS
            ),
            kv_tokens_max(gpu, llm, NODE_GPUS),
        ),
        f"decode ({context} tokens each)": (
            lambda n: utilisation(
                gpu, token_flops * n, decode_step_s(gpu, llm, n, context, NODE_GPUS) * NODE_GPUS
            ),
            cluster.batch_max(context),
        ),
        "vector search (slots)": (
            lambda n: utilisation(
                gpu, 3.0 * n * search.degree * search.dims, extend_s(gpu, search, n)
            ),
            search.slots,
        ),
    }
    yield f"{'roofline':<28}{'saturates at':>13}{'room for':>10}{'reaches, of peak FLOP/s':>25}"
    for name, (use, room) in stages.items():
        batch = saturation(use)
        at = str(batch) if batch <= room else f"({batch})"
        yield f"{name:<28}{at:>13}{room:>10}{use(max(1, min(batch, room))):>25.2%}"
    yield "(in brackets: beyond what a node's memory, or a vector GPU's slots, have room for)"


def _row(cluster: Cluster, rate: float, outcome: Outcome) -> dict[str, object]:
    return {
        "placement": cluster.placement.value,
        "prompts_per_s": rate,
        "gpus": cluster.gpus,
        "index_replicas": cluster.index_replicas,
        **asdict(outcome),
    }


def _line(cluster: Cluster, outcome: Outcome) -> str:
    return (
        f"{cluster.placement.value:>13}: {cluster.gpus} GPUs, {cluster.index_replicas} index "
        f"replicas; TTFT p95 {outcome.ttft_p95_s * 1e3:.0f} ms, search p95 "
        f"{outcome.prefill_search_p95_s * 1e3:.2f} / {outcome.decode_search_p95_s * 1e3:.2f} ms "
        f"(prefill / decode), a token {outcome.token_s * 1e3:.1f} ms, decode stall "
        f"{outcome.decode_stall:.2%}, {outcome.tokens_per_s:.0f} tokens/s, vector GPUs "
        f"{outcome.vector_use:.1%} busy, answered {outcome.finished_share:.0%}"
    )


def _answer(cluster: Cluster, load: Load, options: argparse.Namespace) -> tuple[int | None, str]:
    """Return how many vector GPUs a pool needs, None = no number does; and the same in words."""

    @cache
    def pool(gpus: int) -> Outcome:
        return RagCluster(replace(cluster, placement=Placement.POOL, pool_gpus=gpus), load).run()

    gpus = smallest(lambda gpus: not _missed(pool(gpus), options), POOL_GPUS_MAX)
    if gpus is not None:
        return gpus, f"  vector GPUs that a pool needs for this SLO: {gpus}"
    outcome = pool(POOL_GPUS_MAX)
    return None, (
        f"  no pool of up to {POOL_GPUS_MAX} vector GPUs keeps this SLO: with the most, "
        f"{'; '.join(_missed(outcome, options))}; prefill nodes are {outcome.prefill_use:.0%} busy"
    )


def smallest(is_enough: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to `most` that is enough; None = none is.

    What is above an enough is taken to be enough, so few numbers are tried.
    """
    too_few, enough = 0, 1
    while not is_enough(enough):
        if enough == most:
            return None
        too_few, enough = enough, min(2 * enough, most)
    between = range(too_few + 1, enough)
    return too_few + 1 + bisect_left(between, True, key=is_enough)


def _missed(outcome: Outcome, options: argparse.Namespace) -> list[str]:
    """Return what of the SLO an outcome misses, in words."""
    checks = {
        f"TTFT p95 is {outcome.ttft_p95_s:.3g} s": outcome.ttft_p95_s <= options.ttft_s,
        f"decode stalls {outcome.decode_stall:.2%}": outcome.decode_stall <= options.stall,
        f"only {outcome.finished_share:.0%} of the prompts are answered before the run ends (its "
        "length: --duration-s)": outcome.finished_share >= ALWAYS_UNDER_WAY,
    }
    return [words for words, is_kept in checks.items() if not is_kept]


def _plot(rates: list[float], rows: list[dict[str, object]]) -> str:
    panels = []
    for key, title in (
        ("ttft_p95_s", "TTFT p95 [ms]"),
        ("token_s", "time for a token [ms]"),
        ("decode_search_p95_s", "decode's search p95 [ms]"),
    ):
        series = {
            placement.value: [
                1e3 * float(str(row[key])) for row in rows if row["placement"] == placement.value
            ]
            for placement in Placement
        }
        panels.append(Panel(title, "prompts/s", rates, series))
    return line_plot(panels)
