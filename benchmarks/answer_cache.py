"""The answer cache under a real trace's popularity: how often it hits, what a hit saves and risks.

The questions of two days of RAGPulse, in order: who asks what again is the trace's, the texts are
ours (`coscheduling/popular_days.py`). Each goes to a server with `--answer-cache similar`, workflow
`quote`, one at a time. What was taken from the cache is asked once more without it, just before or
just after: `x_hit` is the median of these times over that of the hits, `x_checked` the same for
hits whose searches ran again, and `answers_equal` the share of hits with the text and the passages
of the answer without the cache. A document that no question is about is put every 50 questions, so
the corpus's revision changes. `x_all` is the time of all questions without the cache, those that
missed counted as they were, over the time with it.

The last rows count pairs of different medical questions about one topic: those that are `near`, and
of these those whose words are the same, too, so that they would be `taken` where their passages
are the same, too. `pairs_near` and `pairs_taken` are those at a cosine of 0.8.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.coscheduling.popular_days import TRACE, popular_days, requests_of
from benchmarks.support.data import rows as data_rows
from benchmarks.support.question_pairs import topics
from benchmarks.support.wiki_index import wiki_index
from heddle import Answer, Server
from heddle.runtime.question_match import asks_the_same
from heddle.runtime.receipt import LookupOutcome

WORKFLOW: Final = "quote"
SIMILARITY: Final = 0.95
COSINES: Final = (0.8, 0.85, 0.9, SIMILARITY)
HITS: Final = (LookupOutcome.EQUAL, LookupOutcome.SIMILAR)


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is asked."""

    seed: int
    questions: int
    pairs: int
    change_every: int = 50
    workflow: str = WORKFLOW
    similarity: float = SIMILARITY


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's time with the cache, and without it where it was a hit [s]."""

    outcome: LookupOutcome
    is_checked: bool
    cached_s: float
    bare_s: float
    is_equal: bool


def run(quick: bool, seed: int) -> dict[str, object]:
    """Ask a trace's questions; returns settings, a row for each outcome, the headline."""
    settings = Settings(seed, 60 if quick else 400, 100 if quick else 500)
    corpus = wiki_index(quick)
    about: dict[str, list[str]] = {}
    for row in data_rows(corpus.single):
        about.setdefault(row["gold"][0], []).append(row["question"])
    days = popular_days(requests_of(data_rows(TRACE)), about, seed)
    questions = list(islice((*days.before, *days.asked), settings.questions))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "corpus"  # documents are put into it
        shutil.copytree(corpus.directory, copy)
        with Server(
            index=copy, answer_cache="similar", answer_cache_similarity=SIMILARITY
        ) as server:
            asked = _ask_all(server, questions, settings)
            pairs = _pairs(server, settings)
    rows = [_row(outcome, asked) for outcome in LookupOutcome]
    rows = [*(row for row in rows if row["questions"]), *pairs]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    hits = [one for one in asked if one.outcome in HITS]
    return {
        "settings": asdict(settings) | {"passages": corpus.passages},
        "rows": rows,
        "headline": {
            "hit_rate": len(hits) / len(asked),
            "asked_before": 1 - len(set(questions)) / len(questions),
            "x_hit": _gain([one for one in hits if not one.is_checked]),
            "x_checked": _gain([one for one in hits if one.is_checked]),
            "x_all": sum(a.bare_s for a in asked) / sum(a.cached_s for a in asked),
            "answers_equal": sum(one.is_equal for one in hits) / max(1, len(hits)),
            "pairs_near": pairs[0]["near"],
            "pairs_taken": pairs[0]["taken"],
        },
    }


def _ask_all(server: Server, questions: Sequence[str], settings: Settings) -> list[Asked]:
    app = server.app(WORKFLOW)
    app.invoke("Is it warm?", answer_cache=False)
    known: set[str] = set()
    asked: list[Asked] = []
    for number, question in enumerate(questions):
        if number % settings.change_every == 0:
            server.upsert("change", f"This document was put {number} questions after the first.")
        bare: tuple[Answer, float] | None = None
        if question in known and number % 2:  # probably a hit: half of them without the cache first
            bare = _timed(server, question, uses_cache=False)
        answer, cached_s = _timed(server, question, uses_cache=True)
        known.add(question)
        lookup = answer.receipt.answer_lookup
        assert lookup is not None, "the server looks each question up"
        if lookup.outcome not in HITS:
            asked.append(Asked(lookup.outcome, lookup.is_checked, cached_s, cached_s, True))
            continue
        other, bare_s = bare or _timed(server, question, uses_cache=False)
        is_equal = (answer.text, _chunks(answer)) == (other.text, _chunks(other))
        if not is_equal:
            print(f"{question!r}: {other.text!r}; of {lookup.question!r}: {answer.text!r}")
        asked.append(
            Asked(
                lookup.outcome,
                lookup.is_checked,
                cached_s,
                bare_s,
                is_equal,
            )
        )
    return asked


def _timed(server: Server, question: str, *, uses_cache: bool) -> tuple[Answer, float]:
    started_s = time.perf_counter()
    answer = server.app(WORKFLOW).invoke(question, answer_cache=None if uses_cache else False)
    return answer, time.perf_counter() - started_s


def _pairs(server: Server, settings: Settings) -> list[dict[str, float]]:
    """Return how many pairs of different questions are near, and how many would be taken."""
    pairs = list(islice(topics(), settings.pairs))
    texts = [text for pair in pairs for text in pair]
    vectors = server.embed(texts, role="query").values
    cosines = np.sum(vectors[0::2] * vectors[1::2], axis=1)
    rows: list[dict[str, float]] = []
    for least in COSINES:
        near = [pair for pair, cosine in zip(pairs, cosines, strict=True) if cosine >= least]
        taken = sum(asks_the_same(*pair) for pair in near)
        rows.append({"cosine": least, "pairs": len(pairs), "near": len(near), "taken": taken})
    return rows


def _row(outcome: LookupOutcome, asked: Sequence[Asked]) -> dict[str, object]:
    own = [one for one in asked if one.outcome is outcome]
    return {
        "outcome": outcome.value,
        "questions": len(own),
        "checked": sum(one.is_checked for one in own),
        "equal": sum(one.is_equal for one in own),
        "cached_p50_s": round(statistics.median(one.cached_s for one in own), 5) if own else 0.0,
        "bare_p50_s": round(statistics.median(one.bare_s for one in own), 5) if own else 0.0,
    }


def _gain(hits: Sequence[Asked]) -> float:
    """Return the median time without the cache over that with it; 0 = there was no hit."""
    if not hits:
        return 0.0
    bare, cached = ([getattr(one, name) for one in hits] for name in ("bare_s", "cached_s"))
    return statistics.median(bare) / statistics.median(cached)


def _chunks(answer: Answer) -> list[int]:
    return sorted(passage.chunk_id for passage in answer.passages)
