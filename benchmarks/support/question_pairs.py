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


def halves(name: str) -> Iterator[Pair]:
    """Yield the second questions of `chains`, each behind its own first half.

    The passage in them stands for a text that a model writes: the half is what is there of it when
    a speculative retrieval begins. (HedraRAG §4.3)
    """
    for question, whole in chains(name):
        asked = question.split()
        text = whole.split()[len(asked) :]
        yield " ".join([*asked, *text[: len(text) // 2]]), whole


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
