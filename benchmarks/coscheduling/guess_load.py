"""`--speculate`: Heddle with prompts computed ahead of their searches, and without, on real lanes.

Heavy corpus, the five workflows, at 0.3 and 0.8 of asyncio_fifo's capacity, on lanes set in two
ways. Where scans use the LLM's cores while it is idle, `auto` makes no guesses: `heddle` is such a
server, and `heddle_always` one with `speculate=always`. Where no cores are lent (`lend_cores`
off), `kept_auto` makes them and `kept_never` none. `x_off_lent_*` and `x_off_kept_*` are the
latencies without guesses over those with them, above 1 = guesses pay; `x_kept_*` are those of
`kept_auto` over those of `heddle`: which of the two serves better. `*_worked_*` compares how long
the engines work in the same way. On the virtual clock, beside other policies: `heddle bench
speculation`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.coscheduling.bed import heddle
from benchmarks.coscheduling.blocks import Contender, Ran, in_turns, latencies_of, worked_of
from benchmarks.coscheduling.contenders import HeddleServer, Reuse
from benchmarks.coscheduling.heavy_load import (
    HeavyLoad,
    check_same_work,
    figures_of,
    heavy_load,
    result,
)
from benchmarks.coscheduling.ratios import median, p99, ratio

LOADS: Final = (0.3, 0.8)
ALWAYS: Final = "heddle_always"
KEPT: Final = "kept_auto"
KEPT_OFF: Final = "kept_never"


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure all at both loads.

    Raises:
        InternalError: contenders did not do the same work.
    """
    return asyncio.run(_measured(quick, seed))


async def _measured(quick: bool, seed: int) -> dict[str, Any]:
    async with heavy_load(quick, seed, "speculate") as load:
        bed, setting = load.bed, load.setting
        with (
            bed.own_lanes(setting, speculate="always") as lent,
            bed.own_lanes(setting, lend_cores=False) as kept,
        ):
            told = {name: Reuse() for name in (ALWAYS, KEPT)}
            own = heddle(load.own)
            others = [
                Contender(ALWAYS, lent, HeddleServer(reuse=told[ALWAYS])),
                Contender(KEPT, kept, HeddleServer(reuse=told[KEPT])),
                Contender(KEPT_OFF, kept, HeddleServer(speculates=False)),
            ]
            return await _compared(load, own, others, told, seed)


async def _compared(
    load: HeavyLoad,
    own: Contender,
    others: Sequence[Contender],
    told: Mapping[str, Reuse],
    seed: int,
) -> dict[str, Any]:
    ran: list[Ran] = []
    figures: dict[str, float] = {}
    size = load.size
    for draw, share in enumerate(LOADS):
        cell = f"load {share}"
        blocks = load.bed.asks(
            size.sweep_asks, size.blocks, share * load.capacity_per_s, 300 + draw
        )
        ran += await in_turns([own, *others], cell, blocks, load.bed.journal)
        taken, worked = latencies_of(ran, cell), worked_of(ran, cell)
        key = f"{share:g}".replace(".", "")
        figures |= {f"{name}_{key}": value for name, value in figures_of(taken).items()}
        for pair, with_it, without in (
            ("off_lent", ALWAYS, own.name),
            ("off_kept", KEPT, KEPT_OFF),
            ("kept", own.name, KEPT),
        ):
            p50 = ratio(taken[with_it], taken[without], median, seed)
            figures[f"x_{pair}_p50_{key}"] = p50.value
            figures[f"x_{pair}_p50_{key}_low95"] = p50.low95
            figures[f"x_{pair}_p99_{key}"] = ratio(taken[with_it], taken[without], p99, seed).value
            engines = ratio(worked[with_it], worked[without], sum, seed)
            figures[f"x_{pair}_worked_{key}"] = engines.value
    for name, reuse in told.items():
        figures |= {f"guesses_{name}": reuse.guesses, f"guesses_won_{name}": reuse.won}
    figures |= check_same_work(own, others)
    headline = [name for name in figures if name.startswith(("x_", "guesses", "near_ties"))]
    return result(load, ran, figures, headline)
