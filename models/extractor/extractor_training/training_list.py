"""What the extractor is trained on: every question, its passage, and passages that don't answer."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .answer_spans import holds_answer
from .handbook import Asked
from .manuals import manual_rows
from .rows import Passage, Row
from .sources import reading_rows
from .split import Split
from .word_index import WordIndex

SEARCHED = 12  # passages of a search that are looked at
NEGATIVES_MAX = 6  # kept for a question
READING_SHARE = 0.15  # of reviews and posts in an epoch: they are little like what is asked
MANUALS_SHARE = 0.3
MANUALS_SEED = 0
HANDBOOK_COPIES = 2  # in an epoch: few questions, of the kind that users of manuals ask


@dataclass(frozen=True, slots=True)
class Lesson:
    """A row and passages that a search returns for its question and that don't answer it.

    share: how often it is drawn in an epoch, in (0, 1].
    """

    row: Row
    negatives: tuple[Passage, ...]
    share: float


def training_list(split: Split, index: WordIndex, written: Iterable[Asked]) -> list[Lesson]:
    """All lessons, in a fixed order.

    index: of the split's passages, for at least the questions that are trained on.
    written: the questions about documentation that people have written.
    """
    wiki = [Lesson(row, searched_negatives(row, index, split.barred), 1.0) for row in split.train]
    reading = [Lesson(row, (), READING_SHARE) for row in reading_rows() if row.spans]
    manuals = [
        Lesson(row, others[:NEGATIVES_MAX], MANUALS_SHARE)
        for row, others in manual_rows(MANUALS_SEED)
    ]
    handbook = [Lesson(row, others, 1.0) for row, others in written]
    return [*wiki, *reading, *manuals, *(handbook * HANDBOOK_COPIES)]


def searched_negatives(row: Row, index: WordIndex, barred: frozenset[str]) -> tuple[Passage, ...]:
    """The best passages by words that hold no accepted answer, without those held for tests."""
    return tuple(
        passage
        for passage in index.best(row.question, SEARCHED)
        if passage.key not in barred
        and passage.text != row.passage.text
        and not holds_answer(f"{passage.title} {passage.text}", row.answers)
    )[:NEGATIVES_MAX]


def digest(lessons: Iterable[Lesson]) -> str:
    """The SHA-256 of the list: questions, passages, spans and negatives, in order."""
    total = hashlib.sha256()
    for lesson in lessons:
        row = lesson.row
        texts = [_identity(row.passage), *map(_identity, lesson.negatives)]
        total.update(json.dumps([row.key, row.question, row.spans, *texts]).encode())
    return total.hexdigest()


def counts(lessons: Sequence[Lesson]) -> dict[str, int]:
    """Rows by source, and all negatives."""
    found: dict[str, int] = {}
    for lesson in lessons:
        found[lesson.row.source] = found.get(lesson.row.source, 0) + 1
    return found | {"negatives": sum(len(lesson.negatives) for lesson in lessons)}


def _identity(passage: Passage) -> list[str]:
    return [passage.title, passage.text]
