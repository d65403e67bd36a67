"""Each lever of co-scheduling by itself, on the virtual clock.

The levers are the passes (of a request and of a cycle) and the engines' order. Each pass is added
to what asyncio does on Heddle's engines (`alone`), and left out of Heddle (`off`). Each order takes
the place of Heddle's. HedraRAG's five workflows, Poisson, the same arrivals for all, on the
machines of `workflows --simulated`: light, heavy and gpu.

A lever's x_p50 is what requests take without it over what they take with it, above 1 = it pays;
an order's is what they take by `shortest_first` over what they take by it. The headline has each
lever at a load of 0.8, left out. `--calibration FILE` is a result of `workflows`.

Source: HedraRAG figs. 18 to 20; Teola figs. 9 and 10.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.virtual.cells import LOAD, Cell, cells, x_p50, x_p99
from benchmarks.virtual.contenders import (
    FIFO,
    LEVERS,
    ORDERS,
    OWN,
    SAME,
    WAYS,
    with_lever_alone,
    with_lever_off,
    with_order,
)
from benchmarks.virtual.corpora import Corpora
from benchmarks.virtual.server import Way

MIX: Final = "five"
OFF, ALONE, ORDER = "off", "alone", "order"


FULL: Final = {0.3: (1, 80), LOAD: (2, 120)}
"""Seeds and requests of each cell, by its load."""
QUICK: Final = {LOAD: (1, 20)}


@dataclass(frozen=True, slots=True)
class Effect:
    """What a lever changes: its ratio of p50 and of p99 on one corpus at one load."""

    lever: str
    how: str
    corpus: str
    load: float
    x_p50: float
    x_p99: float


def run(quick: bool, seed: int, calibration: Path | None = None) -> dict[str, object]:
    """Run every lever on every corpus.

    Raises:
        InternalError: the virtual machine does not reproduce the real cells.
    """
    size, corpora = QUICK if quick else FULL, Corpora.calibrated(calibration)
    table: list[Cell] = []
    effects: list[Effect] = []
    for (name, corpus), load in itertools.product(corpora.by_name.items(), size):
        done = cells(corpus, name, MIX, load, size[load], seed, ways())
        table += done
        effects += effects_of({cell.contender: cell for cell in done})
    for effect in effects:
        print(
            f"{effect.lever:<20} {effect.how:<6} {effect.corpus:<6} load {effect.load}: "
            f"p50 {effect.x_p50:.3f}, p99 {effect.x_p99:.3f}"
        )
    return {
        "settings": {
            **corpora.facts,
            "size": {str(load): cut for load, cut in size.items()},
        },
        "rows": [*map(asdict, effects), *map(asdict, table)],
        "headline": {
            f"{e.lever}_{e.corpus}": e.x_p50 for e in effects if e.load == LOAD and e.how == OFF
        },
    }


def ways() -> dict[str, Way]:
    """Return every way that is compared, by the name of its cell."""
    named: dict[str, Way] = dict(WAYS)
    for lever in LEVERS:
        named[f"{ALONE} {lever}"] = with_lever_alone(lever)
        named[f"{OFF} {lever}"] = with_lever_off(lever)
    named.update({f"{ORDER} {order}": with_order(order) for order in ORDERS})
    return named


def effects_of(found: Mapping[str, Cell]) -> Iterator[Effect]:
    """Yield each lever's effect from the cells of one corpus and load, by their contender."""
    own, same = found[OWN], found[SAME]
    for contender, cell in found.items():
        how, _, lever = contender.partition(" ")
        if contender in (FIFO, SAME, OWN):
            continue
        with_it, without = {
            OFF: (own, cell),
            ALONE: (cell, same),
            ORDER: (cell, own),
        }[how]
        yield Effect(
            lever, how, cell.corpus, cell.load, x_p50(with_it, without), x_p99(with_it, without)
        )
