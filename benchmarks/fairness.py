"""Questions beside one request that embeds many texts: how long do they wait for it?

One server quotes answers from the indexed Wikipedia passages (quick: 2,000 of them). Blocks of
questions alone, beside one embedding as clients send it (of bulk class), and beside one of the
questions' own class, in turns. `interactive_p95_ratio` is the 95th percentile of the questions'
times beside the first over that alone, the median over the rounds; `same_class_p95_ratio` is that
beside the second. Each embedding must go on until its block has ended.
"""

import random
import statistics
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Final

from benchmarks.support.data import rows as data_rows
from benchmarks.support.wiki_index import wiki_index
from heddle import Server
from heddle.core.errors import InternalError
from heddle.core.results import Vectors

WAYS: Final = ("alone", "bulk", "normal")
WORDS: Final = ("river", "stone", "light", "paper", "garden", "signal", "winter", "harbour")
WORDS_A_TEXT: Final = 90
DEADLINE_S: Final = 3600.0  # a body that could not be embedded in time is refused at once


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is asked beside how many texts."""

    seed: int
    blocks: int
    questions: int
    texts: int


@dataclass(frozen=True, slots=True)
class Block:
    """The questions of one block [s]."""

    way: str
    median_s: float
    p95_s: float
    worst_s: float


def run(quick: bool, seed: int) -> dict[str, object]:
    """Ask in turns; returns settings, a row for each block, the headline."""
    settings = Settings(seed, 1, 3, 300) if quick else Settings(seed, 5, 20, 2_000)
    corpus = wiki_index(quick)
    rng = random.Random(seed)
    count = len(WAYS) * settings.blocks * settings.questions + 1
    asked = iter([row["question"] for row in rng.sample(list(data_rows(corpus.single)), count)])
    blocks: list[Block] = []
    with Server(index=corpus.directory) as server:
        server.ask(next(asked))  # warms up
        for _ in range(settings.blocks):
            for way in WAYS:
                texts = _texts(rng, settings.texts)
                questions = [next(asked) for _ in range(settings.questions)]
                blocks.append(_block(server, way, questions, texts))
                print("  ".join(_words(blocks[-1])))
    return {
        "settings": asdict(settings) | {"passages": corpus.passages},
        "rows": [asdict(block) for block in blocks],
        "headline": {
            "interactive_p95_ratio": _p95_ratio(blocks, "bulk"),
            "same_class_p95_ratio": _p95_ratio(blocks, "normal"),
            "worst_s": max(block.worst_s for block in blocks),
        },
    }


def _block(server: Server, way: str, questions: list[str], texts: list[str]) -> Block:
    beside: Future[Vectors] | None = None
    if way != "alone":
        beside = server.submit_embedding(
            texts, priority="bulk" if way == "bulk" else "normal", deadline_s=DEADLINE_S
        )
    taken_s = []
    for question in questions:
        started_s = perf_counter()
        server.ask(question)
        taken_s.append(perf_counter() - started_s)
    if beside is not None:
        if beside.done():
            raise InternalError(f"{len(texts)} texts were embedded before the block had ended")
        beside.cancel()
    return Block(way, statistics.median(taken_s), _p95(taken_s), max(taken_s))


def _p95(taken_s: list[float]) -> float:
    return statistics.quantiles(taken_s, n=20, method="inclusive")[-1]


def _p95_ratio(blocks: list[Block], way: str) -> float:
    """Return the median over the rounds of how much longer questions took than alone."""
    beside, alone = ([b.p95_s for b in blocks if b.way == one] for one in (way, "alone"))
    return statistics.median(a / b for a, b in zip(beside, alone, strict=True))


def _words(block: Block) -> tuple[str, ...]:
    times = (("median", block.median_s), ("p95", block.p95_s), ("worst", block.worst_s))
    return (f"{block.way:<7}", *(f"{name} {seconds:.3f} s" for name, seconds in times))


def _texts(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=WORDS_A_TEXT)) for _ in range(count)]
