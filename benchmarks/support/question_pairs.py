"""Questions that one request asks after another, from real data sets."""

from collections.abc import Iterator
from typing import Final

from benchmarks.support.data import rows as data_rows

PASSAGE_WORDS: Final = 60  # of the passage that a chain's second question brings with it

Pair = tuple[str, str]


def chains(name: str) -> Iterator[Pair]:
    """Yield each multi-hop question of a data set, and it with the first passage that it needs.

    Of the passage only the beginning, as a workflow asks after a first retrieval.
    """
    for row in data_rows(name):
        gold = next(passage for passage in row["passages"] if passage["gold"])
        words = gold["text"].split()[:PASSAGE_WORDS]
        yield row["question"], " ".join([row["question"], *words])


def topics() -> Iterator[Pair]:
    """Yield two different medical questions about each topic that has them."""
    asked: dict[str, str] = {}
    told: set[str] = set()
    for row in data_rows("med_single"):
        focus, question = row["focus"], row["question"]
        before = asked.setdefault(focus, question)
        if before != question and focus not in told:
            told.add(focus)
            yield before, question
