"""The gain of computing prompts, and writing on, before their passages are certain.

Virtual time, a real schedule: Heddle's runtime and the schedulers of its three engines serve
HedraRAG's five workflows over a cost model of one core for retrieval and one for the LLM. The hits
of every search, list by list, are recorded from real questions on the real heavy index of
`heddle bench workflows`; a text stands for one of these searches by its checksum. Searches scan the
same shares of the lists as there, and take 40 % of what engines work for an oneshot. Tokens are
made up, so that a wrong page or an early token changes every token after it; answers are compared.

Policies: *off*; *heddle*, in which the guard decides; *unguarded*, which guesses at every look;
*ralmspec*, like RaLMSpec: speculative retrieval from a request's local cache, verified at each
stride; *ragcache*, like RAGCache: dynamic speculative pipelining while the engine's queue is short.
All run on the same engines, orders and idle rule: guesses run in the background. The two of others
run at the best of four settings each, by their p50 over both loads. Loads are of the capacity of
off. A warm-up comes first, and is not counted. Searches are recorded once, in about a minute of a
core, and kept; `heddle bench prepare` does that, too. Nothing depends on how busy the machine is.

x_* are the other's p50 over heddle's, above 1 = heddle is faster; `_low95` is the lower bound of a
paired bootstrap over the blocks. `x_off_03` is at load 0.3, `x_off_08_low95` at 0.8; the bars over
the two rivals hold at both loads: the smaller bound is the headline. `win_rate` is of heddle's
guesses, `wasted_share` of all tokens that it computed. Bars: 1.1, 1.0, 1.0, 1.0.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Final

from benchmarks.coscheduling.asks import Ask, blocks_of
from benchmarks.coscheduling.ratios import median, p99, ratio
from benchmarks.speculating.engines import LLM_COSTS_S, SEARCH_SHARE
from benchmarks.speculating.policies import OFF, OWN, UNGUARDED, Policy, server_of, virtual
from benchmarks.speculating.recorded import Recording, recording
from benchmarks.speculating.rivals import RIVALS
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import wiki_index
from benchmarks.virtual.clocked_server import Served
from benchmarks.virtual.load import throughput_per_s
from heddle.core.errors import InternalError

LOADS: Final = (0.3, 0.8)
IN_FLIGHT: Final = 16


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; `vectors` of the heavy corpus, asks to warm up and in each block."""

    vectors: int
    warm: int
    blocks: int
    asks: int
    saturating: int


FULL: Final = Size(4_000_000, 120, 24, 60, 120)
QUICK: Final = Size(40_000, 20, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Cell:
    """What one policy did at one load: the blocks' latencies [s] and the counts of guesses."""

    policy: str
    load: float
    latencies_s: tuple[tuple[float, ...], ...]
    guesses: int
    won: int
    tokens: int
    tokens_written_ahead: int
    tokens_wasted: int

    @classmethod
    def of(cls, policy: str, load: float, blocks: Sequence[Sequence[Served]]) -> "Cell":
        """Return what the blocks come to."""
        receipts = [served.receipt for block in blocks for served in block]
        told = [guess for receipt in receipts for guess in receipt.speculations]
        computed = sum(
            r.prompt_tokens - r.prompt_tokens_reused + r.generated_tokens for r in receipts
        )
        return cls(
            policy,
            load,
            tuple(tuple(served.seconds for served in block) for block in blocks),
            len(told),
            sum(guess.is_adopted for guess in told),
            computed,
            sum(guess.tokens_written for guess in told if guess.is_adopted),
            sum(guess.tokens_wasted for guess in told),
        )

    @property
    def every_s(self) -> list[float]:
        """All latencies [s]."""
        return [seconds for block in self.latencies_s for seconds in block]

    def line(self) -> str:
        """Return the cell in one line."""
        return (
            f"{self.policy:<28} at {self.load}: p50 {median(self.every_s):.3f} s, "
            f"p99 {p99(self.every_s):.3f} s, {self.won} of {self.guesses} guesses won, "
            f"{self.tokens_written_ahead} tokens written ahead, {self.tokens_wasted} wasted"
        )


def run(quick: bool, seed: int) -> dict[str, object]:
    """Serve all policies at both loads on virtual time."""
    size = QUICK if quick else FULL
    found = recorded(quick, seed)
    bench = Bench(found, _questions(), size, seed)
    print(f"capacity of off: {bench.capacity_per_s:.2f}/s", flush=True)
    cells = served(bench, _policies())
    best = {
        rival: min(settings, key=lambda name: sum(median(c.every_s) for c in cells[name]))
        for rival, settings in (
            (rival, [f"{rival}: {setting}" for setting in RIVALS[rival]]) for rival in RIVALS
        )
    }
    for rival, name in best.items():
        print(f"{rival} is at its best with {name}", flush=True)
    return {
        "settings": {
            **asdict(size),
            "searches_recorded": found.searches,
            "nlist": found.nlist,
            "nprobes": found.nprobes,
            "llm_costs_s": LLM_COSTS_S,
            "search_share": SEARCH_SHARE,
            "capacity_per_s": bench.capacity_per_s,
            "best_settings": best,
        },
        "rows": [_row(cell) for of_policy in cells.values() for cell in of_policy],
        "headline": _headline(cells, best, seed),
    }


def _row(cell: Cell) -> dict[str, object]:
    """Return what is noted of a cell: latencies to a tenth of a millisecond."""
    blocks = [[round(seconds, 4) for seconds in block] for block in cell.latencies_s]
    return {**asdict(cell), "latencies_s": blocks}


def prepare(quick: bool, seed: int) -> None:
    """Record the searches, so that a run only simulates."""
    recorded(quick, seed)


def recorded(quick: bool, seed: int) -> Recording:
    """Return the searches that are replayed, recorded first where they aren't."""
    return recording(wiki_index(quick), (QUICK if quick else FULL).vectors, seed)


def served(bench: "Bench", policies: Sequence[Policy]) -> dict[str, list[Cell]]:
    """Serve every policy at every load, each in a process of its own, as many at once as cores.

    Raises:
        InternalError: a policy has changed an answer.
    """
    found: dict[str, list[Cell]] = {policy.name: [] for policy in policies}
    expected: dict[float, list[str]] = {}  # texts at each load, as off wrote them: it comes first
    pairs = list(itertools.product(policies, LOADS))
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as processes:
        for (policy, load), (cell, texts) in zip(
            pairs, processes.map(bench.cell, *zip(*pairs, strict=True)), strict=True
        ):
            print(cell.line(), flush=True)
            before = expected.setdefault(load, texts)
            changed = sum(a != b for a, b in zip(texts, before, strict=True))
            if changed:
                raise InternalError(f"{policy.name} changed {changed} answers at load {load}")
            found[policy.name].append(cell)
    return found


class Bench:
    """One recording under each policy: the same asks, engines and draws."""

    def __init__(self, found: Recording, questions: Sequence[str], size: Size, seed: int) -> None:
        self._found, self._questions, self._size, self._seed = found, questions, size, seed
        (asks,) = self._asks(size.saturating, 1, 0.0, 2)
        in_flight = min(IN_FLIGHT, size.saturating // 2)
        ended = server_of(found, OFF, seed).serve_in_turn(virtual(asks), in_flight)
        self.capacity_per_s = throughput_per_s([one.ended_s for one in ended])

    def cell(self, policy: Policy, load: float) -> tuple[Cell, list[str]]:
        """Serve the blocks of a load under a policy; return the cell, and all answers."""
        rate_per_s, size = load * self.capacity_per_s, self._size
        server = server_of(self._found, policy, self._seed)
        for asks in self._asks(size.warm, 1, rate_per_s, 4):
            server.serve(virtual(asks))
        blocks = [
            server.serve(virtual(asks))
            for asks in self._asks(size.asks, size.blocks, rate_per_s, 3)
        ]
        texts = [served.text for block in blocks for served in block]
        return Cell.of(policy.name, load, blocks), texts

    def _asks(self, count: int, blocks: int, rate_per_s: float, draw: int) -> list[list[Ask]]:
        nprobes = self._found.nprobes
        seed = self._seed + draw
        return blocks_of(self._questions, count, blocks, rate_per_s, seed, nprobes)


def _questions() -> list[str]:
    return [row["question"] for name in ("wiki_single", "wiki_multihop") for row in rows(name)]


def _policies() -> list[Policy]:
    others = [
        Policy(f"{rival}: {setting}", rival=make)
        for rival, settings in RIVALS.items()
        for setting, make in settings.items()
    ]
    return [OFF, OWN, UNGUARDED, *others]


def _headline(
    cells: Mapping[str, Sequence[Cell]], best: Mapping[str, str], seed: int
) -> dict[str, float]:
    own, off = cells[OWN.name], cells[OFF.name]
    over_off = [
        ratio(mine.latencies_s, other.latencies_s, median, seed)
        for mine, other in zip(own, off, strict=True)
    ]
    best = {**best, UNGUARDED.name: UNGUARDED.name}
    over_rival = {
        rival: [
            ratio(mine.latencies_s, other.latencies_s, median, seed)
            for mine, other in zip(own, cells[name], strict=True)
        ]
        for rival, name in best.items()
    }
    tokens = sum(cell.tokens + cell.tokens_wasted for cell in own)
    found = {
        "x_off_03": over_off[0].value,
        "x_off_03_low95": over_off[0].low95,
        "x_off_08": over_off[1].value,
        "x_off_08_low95": over_off[1].low95,
        "win_rate": sum(cell.won for cell in own) / max(1, sum(cell.guesses for cell in own)),
        "wasted_share": sum(cell.tokens_wasted for cell in own) / max(1, tokens),
    }
    for rival, ratios in over_rival.items():
        found[f"x_{rival}_low95"] = min(one.low95 for one in ratios)
        for load, one in zip(LOADS, ratios, strict=True):
            found[f"x_{rival}_{load:g}".replace(".", "")] = one.value
    return found
