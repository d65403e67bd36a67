"""Workflow `oneshot` with and without reranking, in turns: is the shorter prompt worth the reading?

One server, one question at a time, the same questions both ways. Without: the five nearest
passages. With: ten are read and three kept. `x_first_token` and `x_cpu` are the medians without
over those with, above 1 where reranking is faster and cheaper; the `in_prompt` figures say how
often an accepted answer stands in the passages of the prompt.
"""

import random
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

import psutil

from benchmarks.support.data import rows as data_rows
from benchmarks.support.wiki_index import wiki_index
from heddle import Server
from heddle.evals.metrics.retrieval import answer_in_passages
from heddle.runtime.events import TokenDelta
from heddle.workflow.ragraph import DEFAULT_TOPK

WAYS: Final[dict[str, dict[str, Any]]] = {"as found": {"topk": DEFAULT_TOPK}, "reranked": {}}


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is asked of whom."""

    seed: int
    model: str
    questions: int
    max_tokens: int = 24


@dataclass(frozen=True, slots=True)
class Asked:
    """One question's times, and whether its prompt could answer it."""

    way: str
    first_token_s: float
    total_s: float
    cpu_s: float
    passages: int
    in_prompt: bool


def run(quick: bool, seed: int, model: str | None = None) -> dict[str, object]:
    """Ask both ways; returns settings, a row for each way, the headline."""
    settings = Settings(seed, model or ("reader" if quick else "smollm2"), 6 if quick else 60)
    corpus = wiki_index(quick)
    asked: dict[str, list[Asked]] = {way: [] for way in WAYS}
    questions = random.Random(seed).sample(list(data_rows(corpus.single)), settings.questions + 1)
    with Server(settings.model, corpus.directory, rerank="always") as server:
        for way in WAYS:  # warms up
            _ask(server, questions[0], way, settings)
        for number, question in enumerate(questions[1:]):
            ways = list(WAYS) if number % 2 else list(reversed(WAYS))
            for way in ways:
                asked[way].append(_ask(server, question, way, settings))
    rows = [_row(way, found) for way, found in asked.items()]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    found, ranked = rows
    return {
        "settings": asdict(settings) | {"passages": corpus.passages},
        "rows": rows,
        "headline": {
            "x_first_token": found["first_token_s"] / ranked["first_token_s"],
            "x_cpu": found["cpu_s"] / ranked["cpu_s"],
            "in_prompt": ranked["in_prompt"],
            "in_prompt_as_found": found["in_prompt"],
        },
    }


def _ask(server: Server, question: dict[str, Any], way: str, settings: Settings) -> Asked:
    before_s, started_s = _cpu_s(), time.perf_counter()
    handle = server.submit(
        "oneshot",
        question["question"],
        max_tokens=settings.max_tokens,
        temperature=0,
        tenant=way.replace(" ", "-"),  # prefix caches are not shared between tenants
        **WAYS[way],
    )
    first_s = 0.0
    for event in handle:
        if isinstance(event, TokenDelta):
            first_s = first_s or time.perf_counter() - started_s
    answer = handle.result()
    total_s = time.perf_counter() - started_s
    in_prompt = bool(answer_in_passages(question["answers"], answer.passages))
    used_s = _cpu_s() - before_s
    return Asked(way, first_s or total_s, total_s, used_s, len(answer.passages), in_prompt)


def _cpu_s() -> float:
    """Processor seconds of this process and its lanes."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(found.user + found.system for found in times)


def _row(way: str, asked: list[Asked]) -> dict[str, Any]:
    return {
        "way": way,
        "passages": statistics.mean(one.passages for one in asked),
        "first_token_s": round(statistics.median(one.first_token_s for one in asked), 4),
        "total_s": round(statistics.median(one.total_s for one in asked), 4),
        "cpu_s": round(statistics.median(one.cpu_s for one in asked), 4),
        "in_prompt": round(statistics.mean(one.in_prompt for one in asked), 4),
    }
