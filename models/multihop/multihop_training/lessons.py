"""What the adapter is trained on: questions, the passages that answer them, and others."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extractor_training.rows import Passage, Row
from extractor_training.sources import records
from extractor_training.split import Split, load_split
from extractor_training.training_list import searched_negatives
from extractor_training.word_index import WordIndex

from heddle.evals.catalogue import load_dataset

MULTIHOP = "wiki_multihop"
DEV_SHARE = 0.05
HOP = "musique_hop"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A question with its answer.

    gold: the passages that answer it together.
    others: passages that don't, to be shown beside them.
    is_multihop: whether it takes several passages; others are drawn more rarely.
    """

    key: str
    source: str
    question: str
    answer: str
    gold: tuple[Passage, ...]
    others: tuple[Passage, ...]
    is_multihop: bool


@dataclass(frozen=True, slots=True)
class Lessons:
    """Lessons by purpose; `dev` holds the last 5 % of each multi-hop set's training questions."""

    train: tuple[Lesson, ...]
    dev: tuple[Lesson, ...]


def load_lessons() -> Lessons:
    """Read the data folder, without the articles of questions that are held for tests.

    Held are the last 20 % of each data set (`heddle.evals.loaders.held_questions`). No passage
    of a training question, right or wrong, has the title or the text of a passage that answers a
    held question, of several passages or of one.

    Raises:
        InputError: the data isn't there.
    """
    split = load_split()
    held = {question.id for question in load_dataset(MULTIHOP).questions}
    asked = list(records(MULTIHOP))
    barred = Barred.of(record for record in asked if record["id"] in held)
    barred.add(split.corpus[key] for key in split.barred)
    whole = [_multihop(record, barred) for record in asked if record["id"] not in held]
    found = [lesson for lesson in whole if lesson is not None]
    train, dev = _cut(found)
    dev_titles = {passage.title for lesson in dev for passage in lesson.gold}
    train = [one for one in train if not dev_titles & {p.title for p in one.gold}]
    kept = {lesson.key for lesson in train}
    hops = [hop for record in asked if record["id"] in kept for hop in _hops(record, barred)]
    singles = _singles(split, barred)
    return Lessons((*train, *hops, *singles), tuple(dev))


@dataclass(frozen=True, slots=True)
class Barred:
    """Titles and texts that no training prompt may show."""

    titles: set[str]
    texts: set[str]

    @classmethod
    def of(cls, held: Iterable[Mapping[str, Any]]) -> "Barred":
        """Return those of the right passages of held records."""
        barred = cls(set(), set())
        for record in held:
            barred.add(_passage(p) for p in record["passages"] if p["gold"])
        return barred

    def add(self, passages: Iterable[Passage]) -> None:
        """Bar more passages."""
        for passage in passages:
            self.titles.add(passage.title)
            self.texts.add(passage.text)

    def __contains__(self, passage: Passage) -> bool:
        return passage.title in self.titles or passage.text in self.texts


def digest(lessons: Iterable[Lesson]) -> str:
    """The SHA-256 of a list: questions, answers and passages, in order."""
    total = hashlib.sha256()
    for one in lessons:
        shown = [[p.title, p.text] for p in (*one.gold, *one.others)]
        total.update(json.dumps([one.key, one.question, one.answer, shown]).encode())
    return total.hexdigest()


def counts(lessons: Iterable[Lesson]) -> dict[str, int]:
    """How many lessons each source has."""
    found: dict[str, int] = {}
    for one in lessons:
        found[one.source] = found.get(one.source, 0) + 1
    return found


def _multihop(record: Mapping[str, Any], barred: Barred) -> Lesson | None:
    """A record with the passages that may be shown; None where one that answers it may not."""
    gold = tuple(_passage(p) for p in record["passages"] if p["gold"])
    others = (_passage(p) for p in record["passages"] if not p["gold"])
    if any(passage in barred for passage in gold):
        return None
    return Lesson(
        record["id"],
        record["dataset"],
        record["question"],
        record["answers"][0],
        gold,
        tuple(passage for passage in others if passage not in barred),
        is_multihop=True,
    )


def _hops(record: Mapping[str, Any], barred: Barred) -> Iterator[Lesson]:
    """Yield the steps of a MuSiQue question, with the answers of earlier steps filled in."""
    if record["dataset"] != "musique":
        return
    passages = {p["id"]: _passage(p) for p in record["passages"]}
    answers: list[str] = []
    for place, hop in enumerate(record["hops"]):
        question = hop["question"]
        for number, answer in enumerate(answers, start=1):
            question = question.replace(f"#{number}", answer)
        answers.append(hop["answer"])
        gold = passages.get(hop["passage"])
        if gold is None or gold in barred or "#" in question:
            continue
        others = tuple(p for p in passages.values() if p != gold and p not in barred)
        asked = question.replace(" >> ", ": ")
        yield Lesson(
            f"{record['id']}/{place}", HOP, asked, hop["answer"], (gold,), others, is_multihop=False
        )


def _singles(split: Split, barred: Barred) -> Iterator[Lesson]:
    """Yield the questions that one passage answers, with passages that a word search finds."""
    rows = [row for row in split.train if row.source != HOP and row.passage not in barred]
    index = WordIndex(list(split.corpus.values()), [row.question for row in rows])
    for row in rows:
        found = searched_negatives(row, index, split.barred)
        others = tuple(passage for passage in found if passage not in barred)
        yield Lesson(row.key, row.source, row.question, _answer(row), (row.passage,), others, False)


def _answer(row: Row) -> str:
    """The shortest accepted answer that stands in the passage: few words are asked for."""
    quoted = [row.passage.text[start:end] for start, end in row.spans]
    return min(quoted, key=len)


def _cut(lessons: list[Lesson]) -> tuple[list[Lesson], list[Lesson]]:
    """Return lessons without and with the last share of each source."""
    by_source: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        by_source.setdefault(lesson.source, []).append(lesson)
    train: list[Lesson] = []
    dev: list[Lesson] = []
    for ours in by_source.values():
        cut = round(len(ours) * (1 - DEV_SHARE))
        train += ours[:cut]
        dev += ours[cut:]
    return train, dev


def _passage(record: Mapping[str, Any]) -> Passage:
    return Passage(record["id"], record["title"], record["text"])
