"""Programs of LangGraph and Haystack, before and after the two lines that `heddle.wrap` takes.

The program (benchmarks/adapting/*_before.py) imagines an answer, searches with it, answers from the
passages, checks the answer, and where it is not in the passages asks the model for a sub-question
and searches again: a condition and a loop, as the frameworks' pages write them, with FAISS and the
embedder in its own process. The reader writes, in float32, greedily.

* before a: the model stands behind `transformers serve`, with or without its continuous batching,
  the one that answers more of a saturating run, where batching works on this CPU at all; the
  program has FAISS in its process.
* before b: the same, its URL set to `heddle serve`.
* after: wrapped, by the same URL. It differs in the lines that `lines_changed` counts.

Corpora: *light*, Wikipedia passages in inverted lists of whole vectors, and *heavy*, the same among
4,000,000 vectors (quick: 40,000), of which a search scans the number of lists with which one search
takes 45 % of a program's time alone. Both sides search the same file with the same number of lists.

Arrivals are Poisson at 0.8 of the throughput of before with 8 in flight. Blocks of the same
arrivals go to both, in turns whose order is reversed each time. x_* is the median latency before
over that after, above 1 = faster after; `_low95` the lower bound of a bootstrap over blocks.
`answers_equal` is the share of equal answers of before b and after, over all cells;
`answers_equal_a` that of before a, where another engine computes. `primitives_seen` is the least
count of nodes that a wrapped program's receipt names.
"""

import difflib
import importlib.util
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np

from benchmarks.adapting.processes import (
    Program,
    heddle_server,
    program,
    transformers_server,
)
from benchmarks.adapting.setting import TOPK, Setting
from benchmarks.coscheduling.heavy_index import INDEX, MAPPED, heavy_index, lists_of
from benchmarks.coscheduling.ratios import median, ratio
from benchmarks.support.data import rows
from benchmarks.support.wiki_index import WikiIndex, wiki_index
from heddle.app.models.model_source import model_directory

FRAMEWORKS: Final = ("langgraph", "haystack")
LOAD: Final = 0.8
IN_FLIGHT: Final = 8
SEARCH_SHARE: Final = 0.45
LIGHT_NPROBE: Final = 32
SEARCHES_TIMED: Final = 20
ADAPTING: Final = Path(__file__).with_name("adapting")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: vectors, blocks of a cell, questions of a block, of a capacity."""

    vectors: int
    blocks: int
    asks: int
    saturating: int


FULL: Final = Size(4_000_000, 6, 40, 48)
QUICK: Final = Size(40_000, 1, 6, 8)


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison: a framework's program before and after, over one corpus."""

    framework: str
    name: str
    before: Program
    after: Program


def run(quick: bool, seed: int) -> dict[str, Any]:
    """Measure the programs that are installed; returns a row for each cell, and the headline."""
    size, wiki = (QUICK if quick else FULL), wiki_index(quick)
    rng = random.Random(seed)
    questions = [row["question"] for row in (*rows(wiki.single), *rows(wiki.multihop))]
    rng.shuffle(questions)
    bench = Bench(size, wiki, seed, questions)
    found = [row for name in FRAMEWORKS if _is_there(name) for row in bench.framework(name)]
    for name in FRAMEWORKS:
        if not _is_there(name):
            print(f"{name}: not measured: it is not installed, or has no program here")
    return {"settings": bench.settings, "rows": found, "headline": _headline(found)}


class Bench:
    """Runs the cells of frameworks.

    Args:
        size: how much is measured.
        wiki: the passages.
        seed: of every draw.
        questions: what is asked, shuffled.

    Mutates: `settings`, as they are found.
    """

    def __init__(self, size: Size, wiki: WikiIndex, seed: int, questions: Sequence[str]) -> None:
        self._size, self._seed, self._questions = size, seed, questions
        self._corpus, self._asked = wiki.directory, 0
        self._light = heavy_index(wiki, wiki.passages, seed)
        self._heavy = heavy_index(wiki, size.vectors, seed)
        self._model: Path = model_directory("reader")
        self.settings: dict[str, Any] = {"nprobe_light": LIGHT_NPROBE}

    def framework(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a framework: a light, b light and b heavy."""
        found = []
        with heddle_server(self._corpus, self._light, LIGHT_NPROBE) as url:
            light = self._setting(url, self._light, LIGHT_NPROBE)
            with self._faster_server(name, light) as own:
                found.append(self._compared(name, "a", own, light))
            alone_s = self._alone_s(name, light)
            found.append(self._compared(name, "b_light", light, light))
        nprobe = self._heavy_nprobe(alone_s)
        self.settings |= {"nprobe_heavy": nprobe, f"alone_s_{name}": alone_s}
        with heddle_server(self._corpus, self._heavy, nprobe) as url:
            heavy = self._setting(url, self._heavy, nprobe)
            found.append(self._compared(name, "b_heavy", heavy, heavy))
        return found

    def _setting(self, url: str, index: Path, nprobe: int) -> Setting:
        return Setting(f"{url}/v1", "reader", str(self._corpus), str(index), nprobe, url)

    @contextmanager
    def _faster_server(self, name: str, light: Setting) -> Iterator[Setting]:
        """Run `transformers serve` the way it answers more; yield the setting with it."""
        asked, per_s = self._arrivals(0.0, self._size.saturating), {}
        for batches in (False, True):
            try:
                with transformers_server(self._model, batches=batches) as url:
                    own = replace(light, llm_url=url, model=str(self._model))
                    with program(name, "before", own) as before:
                        per_s[batches] = self._per_s(before, asked)
            except RuntimeError as error:  # its batching ends itself on some CPUs
                if not batches:
                    raise
                print(f"{name}: transformers serve with batching is left out: {error}")
        best = max(per_s, key=lambda one: per_s[one])
        print(f"{name}: transformers serve, questions/s without and with batching: {per_s}")
        self.settings[f"transformers_serve_{name}"] = {"batches": best, "per_s": per_s[best]}
        with transformers_server(self._model, batches=best) as url:
            yield replace(light, llm_url=url, model=str(self._model))

    def _compared(
        self, framework: str, cell: str, before: Setting, after: Setting
    ) -> dict[str, Any]:
        with ExitStack() as stack:
            old = stack.enter_context(program(framework, "before", before))
            new = stack.enter_context(program(framework, "after", after))
            for one in (old, new):
                one.block(self._arrivals(0.0, 2), 1)  # the first ones load what is lazy
            per_s = self._per_s(old, self._arrivals(0.0, self._size.saturating))
            blocks = [
                self._arrivals(LOAD * per_s, self._size.asks) for _ in range(self._size.blocks)
            ]
            ran: dict[str, list[dict[str, Any]]] = {"before": [], "after": []}
            for number, block in enumerate(blocks):
                turns = [("before", old), ("after", new)]
                for name, one in turns if number % 2 == 0 else reversed(turns):
                    ran[name].append(one.block(block))
        return self._row(framework, cell, per_s, ran)

    def _row(
        self, framework: str, cell: str, per_s: float, ran: dict[str, list[dict[str, Any]]]
    ) -> dict[str, Any]:
        taken = {name: [one["latencies_s"] for one in blocks] for name, blocks in ran.items()}
        x = ratio(taken["after"], taken["before"], median, self._seed)
        answers = {n: [a for one in blocks for a in one["answers"]] for n, blocks in ran.items()}
        pairs = list(zip(answers["before"], answers["after"], strict=True))
        row = {
            "framework": framework,
            "cell": cell,
            "before_per_s": per_s,
            "p50_before_s": float(np.median(np.concatenate(taken["before"]))),
            "p50_after_s": float(np.median(np.concatenate(taken["after"]))),
            "p95_before_s": float(np.quantile(np.concatenate(taken["before"]), 0.95)),
            "p95_after_s": float(np.quantile(np.concatenate(taken["after"]), 0.95)),
            "x_p50": x.value,
            "x_p50_low95": x.low95,
            "answers": len(pairs),
            "answers_equal": sum(a == b for a, b in pairs),
            "primitives_seen": ran["after"][-1]["primitives_seen"],
            "lines_changed": lines_changed(framework),
        }
        print(
            f"{framework} {cell}: {row['p50_before_s']:.2f} s before, "
            f"{row['p50_after_s']:.2f} s after, {x.value:.2f} x, "
            f"{row['answers_equal']} of {len(pairs)} answers equal",
            flush=True,
        )
        return row

    def _alone_s(self, framework: str, setting: Setting) -> float:
        """Return the median time of a program on its own, one question after the other [s]."""
        with program(framework, "before", setting) as before:
            asked = self._arrivals(0.0, max(4, self._size.saturating // 4))
            return float(np.median(before.block(asked, 1)["latencies_s"]))

    def _heavy_nprobe(self, alone_s: float) -> int:
        """Return how many lists make a search take its share of a program's time."""
        wanted_s = alone_s * SEARCH_SHARE / (1 - SEARCH_SHARE)
        index = faiss.read_index(str(self._heavy / INDEX), MAPPED)
        rng, nprobe = np.random.default_rng(self._seed), 16
        vectors = rng.standard_normal((SEARCHES_TIMED, index.d), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1)[:, None]
        index.nprobe = most = lists_of(self._size.vectors)
        started_s = time.perf_counter()
        for vector in vectors[:2]:
            index.search(vector[None, :], TOPK)
        whole_s = (time.perf_counter() - started_s) / 2
        nprobe = round(most * wanted_s / whole_s)
        return max(16, min(most, nprobe))

    def _per_s(self, one: Program, asked: Sequence[tuple[float, str]]) -> float:
        return len(asked) / float(one.block(asked, IN_FLIGHT)["seconds"])

    def _arrivals(self, rate_per_s: float, count: int) -> list[tuple[float, str]]:
        """Return the next questions, at Poisson times; rate 0 = all at once."""
        rng = np.random.default_rng((self._seed, self._asked))
        gaps = rng.exponential(1 / rate_per_s, count) if rate_per_s else np.zeros(count)
        asked = [self._questions[(self._asked + n) % len(self._questions)] for n in range(count)]
        self._asked += count
        return list(zip(np.cumsum(gaps).tolist(), asked, strict=True))


def lines_changed(framework: str) -> int:
    """Return how many lines of a program are new or changed after."""
    before, after = (
        (ADAPTING / f"{framework}_{variant}.py").read_text(encoding="utf-8").splitlines()
        for variant in ("before", "after")
    )
    return sum(line.startswith("+ ") for line in difflib.ndiff(before, after))


def _is_there(framework: str) -> bool:
    has_program = (ADAPTING / f"{framework}_program.py").is_file()
    return has_program and importlib.util.find_spec(framework) is not None


def _headline(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for row in found:
        key = f"x_{row['framework']}_p50_{row['cell']}"
        figures |= {key: row["x_p50"], f"{key}_low95": row["x_p50_low95"]}
    for key, is_own in (("answers_equal", True), ("answers_equal_a", False)):
        some = [row for row in found if (row["cell"] != "a") is is_own]
        if some:
            count = sum(row["answers"] for row in some)
            figures[key] = sum(row["answers_equal"] for row in some) / count
    if found:
        figures["lines_changed"] = max(row["lines_changed"] for row in found)
        figures["primitives_seen"] = min(len(row["primitives_seen"]) for row in found)
    return figures
