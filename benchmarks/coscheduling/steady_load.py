"""Heddle beside asyncio at 0.8 of the capacity of asyncio on engines that serve calls as they come.

The rows and the headline of `heddle bench workflows`; its docstring says what they mean.
"""

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from benchmarks.coscheduling.bed import FIFO, OWN, SAME, Bed, asyncio_fifo, asyncio_same, heddle
from benchmarks.coscheduling.blocks import Contender, Ran, in_turns, latencies_of
from benchmarks.coscheduling.contenders import FUSIONRAG, HeddleServer, Reuse
from benchmarks.coscheduling.corpora import HEAVY, HEAVY_DEFAULT, LIGHT, Corpora
from benchmarks.coscheduling.fifo_setting import FifoSetting
from benchmarks.coscheduling.journal import Journal
from benchmarks.coscheduling.primed_corpus import PrimedCorpus
from benchmarks.coscheduling.ratios import median, p99, ratio
from benchmarks.coscheduling.same_work import SameWork, same_work
from benchmarks.coscheduling.sizes import Size, size_of
from heddle.core.errors import HeddleError, InternalError
from heddle.evals.metrics.token_f1 import token_f1

LOAD: Final = 0.8
APPROX: Final = "heddle_approx"


@dataclass(slots=True)
class Cell:
    """What was measured on one corpus. Mutates: filled as it is measured.

    `engines`: how those of asyncio_fifo take calls, and the lists that searches scan. `speculates`:
    whether Heddle did.
    """

    name: str
    ran: list[Ran] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    tried: list[dict[str, object]] = field(default_factory=list)
    same: SameWork | None = None
    problem: str = ""
    recorded: dict[str, object] = field(default_factory=dict)
    engines: dict[str, object] = field(default_factory=dict)
    speculates: bool = False


def measured(quick: bool, seed: int) -> dict[str, Any]:
    """Measure both corpora.

    Raises:
        InternalError: contenders did not do the same work; what was measured is in the journal.
    """
    size = size_of(quick)
    corpora, journal = Corpora.of(quick, size, seed), Journal("workflows")
    _print_days(corpora)
    primed = corpora.primed()
    print(f"{primed.chunks} chunks have stored KV of {primed.kv_bytes / 2**30:.1f} GiB", flush=True)
    cells = [Cell(LIGHT), Cell(HEAVY), Cell(HEAVY_DEFAULT)]
    setting: FifoSetting | None = None
    for cell in cells:
        bed = corpora.bed(cell.name, journal)
        # What the default kind shows beside needs no calibration of its own.
        known = setting or FifoSetting() if cell.name == HEAVY_DEFAULT else None
        try:
            setting = asyncio.run(_measure(cell, bed, corpora, primed, known))
        except HeddleError as error:  # the other corpora are worth measuring all the same
            cell.problem = f"{cell.name}: {error}"
            print(cell.problem, flush=True)
        cell.tried = [one.record() for one in bed.tried]
        journal.note("cell", {"cell": cell.name, "facts": cell.facts, "problem": cell.problem})
        print(f"{cell.name}: {', '.join(f'{k} {v:.3g}' for k, v in cell.facts.items())}")
    problems = [cell.problem for cell in cells if cell.problem]
    if problems:
        raise InternalError("; ".join(problems))
    figures = _figures(cells, corpora, seed)
    journal.note("figures", figures)
    for name, value in figures.items():
        print(f"{name:<32} {value:.4g}")
    return {
        "settings": {
            **asdict(size),
            "load": LOAD,
            "speculates": all(cell.speculates for cell in cells),
            "corpora": {cell.name: cell.facts for cell in cells},
            "engines": {cell.name: cell.engines for cell in cells},
            "tried": {cell.name: cell.tried for cell in cells},
            "figures": figures,
            "recorded": {
                "questions": len(corpora.questions),
                **{cell.name: cell.recorded for cell in cells if cell.name != HEAVY_DEFAULT},
            },
        },
        "rows": [asdict(ran.block) for cell in cells for ran in cell.ran],
        "headline": {name: figures[name] for name in HEADLINE},
    }


def prepare(quick: bool, seed: int) -> None:
    """Build the indexes and fill the store of chunk KV, so that a run only measures."""
    corpora, journal = Corpora.of(quick, size_of(quick), seed), Journal("workflows-prepare")
    corpora.bed(HEAVY_DEFAULT, journal)
    corpora.primed()


async def _measure(
    cell: Cell,
    bed: Bed,
    corpora: Corpora,
    primed: PrimedCorpus,
    known: FifoSetting | None,
) -> FifoSetting:
    """Measure one corpus; return how the engines were set that serve calls as they come."""
    size = corpora.size
    setting = known or await bed.choose_fifo()
    cell.engines = {
        "calls": setting.calls.value,
        "prompt_chunk": setting.prompt_chunk,
        "is_llm_everywhere": setting.is_llm_everywhere,
        "is_retrieval_everywhere": setting.is_retrieval_everywhere,
        "nprobes": list(bed.nprobes),
    }
    with ExitStack() as started:
        fifo = asyncio_fifo(started.enter_context(bed.fifo_lanes(setting)))
        own = started.enter_context(bed.own_lanes(setting))
        cell.speculates = own.speculates
        same, exact, reuse = asyncio_same(own), heddle(own), Reuse()
        for one in (fifo, exact):
            cell.facts[f"search_share_{one.name}"] = await bed.search_share(one)
        capacity = await bed.capacity_per_s(fifo, bed.asks(size.saturating, 1, 0.0, 2)[0])
        cell.facts["capacity_per_s"] = capacity
        everyone, counts = [fifo, same, exact], _blocks_of_each(cell.name, size)
        if counts[APPROX]:
            copy = started.enter_context(primed.for_a_run())
            lanes = started.enter_context(bed.own_lanes(setting, copy, **primed.settings))
            everyone.append(Contender(APPROX, lanes, HeddleServer(FUSIONRAG, reuse)))
        blocks = bed.asks(size.asks, counts[OWN], LOAD * capacity, 3)
        for number, asks in enumerate(blocks):
            present = [one for one in everyone if counts[one.name] > number]
            cell.ran += await in_turns(present, cell.name, [asks], bed.journal, first=number)
    if counts[APPROX]:
        chunks = max(1, reuse.chunks.total())
        cell.facts["approx_tokens_reused"] = reuse.share
        cell.facts.update({f"approx_{kind}": n / chunks for kind, n in reuse.chunks.items()})
    cell.same = same_work(exact, [fifo], [same])
    # Of how many questions the asks were drawn: from as many, the draws can be made again.
    cell.recorded = {**exact.generations.work.as_json(), "questions": len(bed.questions)}
    return setting


def _blocks_of_each(cell: str, size: Size) -> dict[str, int]:
    """Return how many blocks each contender has: few where its figure has no bar."""
    few = size.reported
    if cell == HEAVY_DEFAULT:
        return {FIFO: few, SAME: few, OWN: few, APPROX: 0}
    everything = dict.fromkeys((FIFO, SAME, OWN, APPROX), size.blocks)
    return everything | ({SAME: few} if cell == LIGHT else {APPROX: few})


def _print_days(corpora: Corpora) -> None:
    days = corpora.days
    print(
        f"{len(days.before)} questions of a day are known when {len(days.asked)} of the next come; "
        f"{days.questions_seen:.1%} of these are known word for word (in RAGPulse "
        f"{days.questions_seen_there:.1%}), {days.passages_seen:.1%} ask about a passage that was "
        f"asked about (there {days.passages_seen_there:.1%})",
        flush=True,
    )


HEADLINE: Final = (
    "x_fifo_p50_heavy",
    "x_fifo_p50_heavy_low95",
    "x_fifo_p99_heavy",
    "x_same_p50_heavy_low95",
    "x_fifo_p50_light_low95",
    "x_approx_p50_light",
    "approx_f1_drop",
    "tokens_equal",
    "near_ties",
    "search_share_heavy",
)


def _figures(cells: Sequence[Cell], corpora: Corpora, seed: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in cells:
        corpus, taken = cell.name.replace(" ", "_"), latencies_of(cell.ran, cell.name)
        for name in (FIFO, SAME):
            short = name.removeprefix("asyncio_")
            own = taken[OWN][: len(taken[name])]
            p50 = ratio(own, taken[name], median, seed)
            found[f"x_{short}_p50_{corpus}"] = p50.value
            found[f"x_{short}_p50_{corpus}_low95"] = p50.low95
            found[f"x_{short}_p99_{corpus}"] = ratio(own, taken[name], p99, seed).value
        if APPROX in taken:
            fifo = taken[FIFO][: len(taken[APPROX])]
            found[f"x_approx_p50_{corpus}"] = ratio(taken[APPROX], fifo, median, seed).value
        found[f"search_share_{corpus}"] = cell.facts[f"search_share_{OWN}"]
    light = next(cell for cell in cells if cell.name == LIGHT)
    found |= f1_drop(light.ran, corpora.accepted)
    works = [cell.same for cell in cells if cell.same is not None]
    found["near_ties"] = sum(w.near_ties for w in works) / sum(w.generations for w in works)
    found["tokens_equal"] = 1.0  # else the run has failed
    found["stolen"] = statistics.fmean(ran.block.stolen for cell in cells for ran in cell.ran)
    return found


def f1_drop(ran: Sequence[Ran], accepted: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the F1 of exact and approximate answers to the same questions, and their difference.

    Args:
        ran: blocks of both.
        accepted: the right answers of a question.
    """
    scores: dict[str, list[float]] = {OWN: [], APPROX: []}
    for one in ran:
        if one.block.contender in scores:
            scores[one.block.contender] += [
                token_f1(text, accepted[ask.question])
                for ask, text in zip(one.asks, one.answers, strict=True)
            ]
    exact, approx = (statistics.fmean(scores[name]) for name in (OWN, APPROX))
    return {
        "exact_f1": exact,
        "approx_f1": approx,
        "approx_f1_drop": exact - approx,
        "f1_questions": float(len(scores[APPROX])),
    }
