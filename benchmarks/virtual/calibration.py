"""A virtual machine that costs what the real one did, from a run of `heddle bench workflows`.

From the run come the lengths of prompts, texts and passages, the engines' cost models, and the
share of search in an unloaded oneshot: a factor on the lists is found that gives a virtual oneshot
that share. Where the run has recorded its work, its cost models are scaled to what its engines have
worked. Where the record is another run's, one factor on the costs of both models is found, with
which the virtual asyncio_fifo has the capacity of the run, by the geometric mean of both corpora:
the LLM is the same in both. The latencies of the run are not used: they are what the machine is
checked by.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from statistics import geometric_mean, median
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from benchmarks.coscheduling.asks import Ask, Nprobes, blocks_of
from benchmarks.coscheduling.heavy_index import lists_of
from benchmarks.coscheduling.search_calls import SearchCalls
from benchmarks.virtual.clocked_server import VirtualAsk
from benchmarks.virtual.contenders import FIFO, WAYS
from benchmarks.virtual.load import Corpus, throughput_per_s
from benchmarks.virtual.machine import Machine, llm_limits
from benchmarks.virtual.recorded_requests import (
    RecordedRequest,
    passage_lengths,
    recorded_requests,
)
from benchmarks.virtual.scripts import DRAWN, FIVE, Script, drawn_scripts, means, recorded_script
from benchmarks.virtual.server import Way
from heddle.core.errors import InputError
from heddle.engines.vector.ivf.step_counts import PRIOR_S

CORPORA: Final = ("light", "heavy")
LISTS_UNIT: Final = 16  # real lists of the heavy corpus that are counted as one
LIGHT_NPROBE: Final = 8  # their time is found, so their number only says how finely one is cut
SEATS: Final = 16
KV_TOKENS: Final = 1 << 16
ROUNDS: Final = 3  # of finding both factors, as each moves the other a little
SCRIPTS_MAX: Final = 24  # of a workflow: enough to spread its lengths
SCALED: Final[Mapping[str, Callable[[Machine, float], Machine]]] = MappingProxyType(
    {"llm": Machine.with_llm, "embedding": Machine.with_embedding, "lists": Machine.with_lists}
)
DRIVER: Final = "driver_s"
ENGINE_OF: Final = MappingProxyType({"llm": "llm", "embedding": "embedding", "lists": "vector"})


@dataclass(frozen=True, slots=True)
class RealCell:
    """One corpus of a real run; `latencies_s` of each contender, block by block.

    `worked_s` is how long its engines' steps took in these blocks, by contender and engine, and
    how long the process of runtime and program computed, as `driver_s`; as far as it is recorded.
    `calls` is how engines that serve calls as they come take queries, `step_tokens` the most of
    one LLM step of all contenders, `questions` how many the asks were drawn of.
    """

    capacity_per_s: float
    search_share: float
    nprobes: Nprobes
    calls: SearchCalls
    step_tokens: int
    record: Mapping[str, Any]
    questions: int
    latencies_s: Mapping[str, Sequence[Sequence[float]]]
    worked_s: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class RealRun:
    """A run of `heddle bench workflows`, with the record of its work.

    `speculates`: whether Heddle speculated in it, as servers do by default.
    """

    seed: int
    blocks: int
    asks: int
    saturating: int
    alone: int
    load: float
    vectors: int
    has_own_record: bool
    speculates: bool
    cells: Mapping[str, RealCell]

    @classmethod
    def read(cls, path: Path, record_path: Path) -> Self:
        """Read a run; where it has no record of its work, that of `record_path` is taken.

        A record without the heavy corpus has the requests of the light one stand for both.

        Raises:
            InputError: a file isn't there, or has no such fields.
        """
        run = _read(path)
        try:
            settings = run["settings"]
            record = settings.get("recorded") or _read(record_path)
            cells = {
                name: _cell(
                    name, run, record.get(name) or record["light"], record["questions"], path
                )
                for name in CORPORA
            }
            return cls(
                run["seed"],
                settings["blocks"],
                settings["asks"],
                settings["saturating"],
                settings["alone"],
                settings["load"],
                settings["vectors"],
                "recorded" in settings,
                settings.get("speculates", True),
                cells,
            )
        except KeyError as error:
            raise InputError(
                f"{path} has no field {error}: write it with `heddle bench workflows --json FILE`"
            ) from error

    @property
    def nlist(self) -> int:
        """Inverted lists of the heavy corpus."""
        return lists_of(self.vectors)


def _read(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path} isn't there: name a result of `heddle bench workflows`")
    return json.loads(path.read_text(encoding="utf-8"))


def _cell(
    name: str, run: Mapping[str, Any], record: Mapping[str, Any], questions: int, path: Path
) -> RealCell:
    facts, engines = (run["settings"][of][name] for of in ("corpora", "engines"))
    blocks = sorted((row for row in run["rows"] if row["cell"] == name), key=itemgetter("number"))
    rows_of = {
        contender: [row for row in blocks if row["contender"] == contender] for contender in WAYS
    }
    taken_s = {
        contender: [row["latencies_s"] for row in rows] for contender, rows in rows_of.items()
    }
    if not all(taken_s.values()):
        raise InputError(f"{path} has no latencies of {', '.join(WAYS)} on the corpus {name}")
    share = facts[f"search_share_{FIFO}"]
    return RealCell(
        facts["capacity_per_s"],
        share,
        engines["nprobes"],
        SearchCalls(engines["calls"]),
        engines["prompt_chunk"],
        record,
        record.get("questions", questions),
        taken_s,
        {contender: _worked_s(rows) for contender, rows in rows_of.items()},
    )


def _worked_s(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how long each engine and the runtime's process worked in all these blocks [s]."""
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.get("worked_s", {}))
        if DRIVER in row:
            found[DRIVER] += row[DRIVER]
    return dict(found)


@dataclass(frozen=True, slots=True)
class Check:
    """The p50 of a contender in a real cell and in the virtual one [s]."""

    corpus: str
    contender: str
    real_s: float
    virtual_s: float

    @property
    def error(self) -> float:
        """How far the virtual one is off, as a share of the real one."""
        return self.virtual_s / self.real_s - 1.0


class ServedBlocks(NamedTuple):
    """What requests took on the virtual machine, what each engine worked [s], and cycles."""

    latencies_s: list[float]
    worked_s: Mapping[str, float]
    cycles: int


class Calibration:
    """Finds the virtual machine of a real cell, and checks it by the cell's latencies.

    Attributes:
        corpus: the machine, and requests as they were recorded.
        factors: what the recorded costs were multiplied by.
    """

    @classmethod
    def of(cls, run: RealRun) -> dict[str, Self]:
        """Return the machines of both corpora, found."""
        found = {name: cls(name, run) for name in CORPORA}
        for _ in range(ROUNDS):
            for one in found.values():
                one.find_lists()
            if not run.has_own_record:
                factor = geometric_mean(one.slowness() for one in found.values())
                for one in found.values():
                    one.scale("llm", factor)
                    one.scale("embedding", factor)
        return found

    def __init__(self, name: str, run: RealRun) -> None:
        self._name, self._run, self._cell = name, run, run.cells[name]
        requests = recorded_requests(self._cell.record, f"corpus {name}")
        scripts = scripts_of(requests)
        unit = LISTS_UNIT if any(self._cell.nprobes) else 1
        self._nprobes: Nprobes = [n and max(1, round(n / unit)) for n in self._cell.nprobes]
        machine = _machine(self._cell, run, unit)
        self.corpus = Corpus(machine, scripts, self._nprobes, passage_lengths(requests))
        self.factors = dict.fromkeys(SCALED, 1.0)

    def find_lists(self) -> None:
        """Find what lists cost, so that an unloaded oneshot has the real one's share of search."""
        share, wanted = self.search_share(), self._cell.search_share
        self.scale("lists", wanted / (1 - wanted) / (share / (1 - share)))

    def slowness(self) -> float:
        """Return the virtual capacity over the real one: what models should cost more."""
        return self.capacity_per_s() / self._cell.capacity_per_s

    def checks(self) -> list[Check]:
        """Serve the real cell's arrivals on the virtual machine, each contender its blocks."""
        found = []
        for contender, way in WAYS.items():
            way = replace(way, speculates=way.speculates and self._run.speculates)
            real_s, virtual_s = self.real_s(contender), self.virtual_s(contender, way)
            found.append(Check(self._name, contender, median(real_s), median(virtual_s)))
        return found

    def real_s(self, contender: str) -> list[float]:
        """Return the latencies of a contender in all its blocks [s]."""
        return [seconds for block in self._cell.latencies_s[contender] for seconds in block]

    def virtual_s(self, contender: str, way: Way) -> list[float]:
        """Serve the arrivals of the blocks that a contender had; return the latencies [s]."""
        return self.served(contender, way).latencies_s

    def find_work(self, contender: str, way: Way) -> None:
        """Find what engines and cycles cost, so that they work as long as in the real blocks.

        A cycle takes what the process of runtime and program has computed, evenly.

        Raises:
            InputError: the run has not recorded how long they worked.
        """
        real_s = self._cell.worked_s[contender]
        if not {*ENGINE_OF.values(), DRIVER} <= set(real_s):
            raise InputError(
                f"the run has no worked_s or driver_s of {contender} on the corpus {self._name}: "
                "write it again with `heddle bench workflows --json FILE`"
            )
        for _ in range(ROUNDS):
            blocks = self.served(contender, way)
            for what, engine in ENGINE_OF.items():
                self.scale(what, real_s[engine] / blocks.worked_s[engine])
            self.cycles_take(real_s[DRIVER] / blocks.cycles)

    def cycles_take(self, router_s: float) -> None:
        """Have a cycle of the runtime take this long [s]."""
        self.corpus.machine = replace(self.corpus.machine, router_s=router_s)

    def served(self, contender: str, way: Way) -> ServedBlocks:
        """Serve the arrivals of a contender's blocks."""
        rate_per_s = self._run.load * self._cell.capacity_per_s
        blocks = self._asks(self._run.asks, self._run.blocks, rate_per_s, 3)
        latencies_s: list[float] = []
        worked_s: Counter[str] = Counter()
        cycles = 0
        for asks in blocks[: len(self._cell.latencies_s[contender])]:
            server = self.corpus.server(way)
            latencies_s += server.serve(self._virtual(asks))
            worked_s.update(server.worked_s())
            cycles += server.cycles
        return ServedBlocks(latencies_s, dict(worked_s), cycles)

    def scale(self, what: str, factor: float) -> None:
        """Multiply the costs of the `llm`, of the `embedding` or of the `lists`."""
        known = self.corpus
        self.factors[what] *= factor
        scaled = SCALED[what](known.machine, factor)
        self.corpus = Corpus(scaled, known.scripts, known.nprobes, known.passages)

    def _asks(self, count: int, blocks: int, rate_per_s: float, draw: int) -> list[list[Ask]]:
        """Return the arrivals of the real run: the same draws from as many questions."""
        questions = [str(number) for number in range(self._cell.questions)]
        seed = self._run.seed + draw
        return blocks_of(questions, count, blocks, rate_per_s, seed, self._nprobes)

    def _virtual(self, asks: Sequence[Ask]) -> list[VirtualAsk]:
        numbered = ((ask, int(ask.question)) for ask in asks)
        return [
            self.corpus.ask(ask.workflow, number, ask.nprobe, number, ask.at_s)
            for ask, number in numbered
        ]

    def capacity_per_s(self) -> float:
        """Return the throughput of asyncio_fifo on the real run's requests."""
        (asks,) = self._asks(self._run.saturating, 1, 0.0, 2)
        server = self.corpus.server(WAYS[FIFO])
        return throughput_per_s(server.serve_in_turn(self._virtual(asks), self.corpus.in_flight))

    def search_share(self) -> float:
        """Return the share of search in the engines' time of oneshots, one after the other."""
        (asks,) = self._asks(self._run.alone, 1, 0.0, 1)
        oneshots = [
            Ask("oneshot", ask.question, self._nprobes[place % len(self._nprobes)], 0.0)
            for place, ask in enumerate(asks)
        ]
        server = self.corpus.server(WAYS[FIFO])
        server.serve_in_turn(self._virtual(oneshots), 1)
        worked_s = server.worked_s()
        return worked_s["vector"] / sum(worked_s.values())


def scripts_of(requests: Sequence[RecordedRequest]) -> dict[str, list[Script]]:
    """Return the scripts of all ten workflows.

    The five are recorded ones. The drawn ones take their lengths from them, and for each question
    its length.
    """
    recorded = {
        name: [recorded_script(one) for one in requests if one.workflow == name][:SCRIPTS_MAX]
        for name in FIVE
    }
    lengths = means(requests)
    other_share = round(
        sum(s.other_share for s in recorded["multistep"]) / len(recorded["multistep"])
    )
    drawn: dict[str, list[Script]] = {name: [] for name in DRAWN}
    for script in recorded["oneshot"]:
        for name, one in drawn_scripts(lengths, script.question_tokens, other_share).items():
            drawn[name].append(one)
    return {**recorded, **drawn}


def _machine(cell: RealCell, run: RealRun, unit: int) -> Machine:
    costs = {name: _as_worked(cell.record, name) for name in ("llm", "embedding", "vector")}
    vector_s = {**PRIOR_S, **costs["vector"]}
    size = run.vectors / run.nlist
    list_s = unit * (vector_s["lists"] + size * vector_s["vectors"])
    ridden_s = unit * size * vector_s["ridden"]
    return Machine(
        llm_s=costs["llm"],
        embedding_s=costs["embedding"],
        vector_s=MappingProxyType({**vector_s, "lists": list_s, "ridden": ridden_s}),
        nlist=run.nlist // unit,
        nprobe_default=LIGHT_NPROBE,
        llm=llm_limits(SEATS, cell.step_tokens, KV_TOKENS),
        fifo_calls=cell.calls,
        shares_lists=cell.record["sums"].get("vector", {}).get("ridden", 0) > 0,
    )


def _as_worked(record: Mapping[str, Any], lane: str) -> Mapping[str, float]:
    """Return an engine's cost model, scaled so that it predicts in all what the engine worked."""
    costs_s, sums = record["costs"][lane], record["sums"].get(lane, {})
    predicted_s = sum(costs_s.get(name, 0.0) * count for name, count in sums.items())
    factor = sums["seconds"] / predicted_s if predicted_s > 0 else 1.0
    return MappingProxyType({name: factor * seconds for name, seconds in costs_s.items()})
