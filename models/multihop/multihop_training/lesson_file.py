"""Lessons in a file of their own, for a machine that trains without the data folder."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from extractor_training.rows import Passage

from .lessons import Lesson, Lessons, load_lessons


def lessons_of(path: Path | None) -> Lessons:
    """Read the lessons from a file; without one, or where it is missing, from the data folder.

    A file that was missing is written.
    """
    if path is not None and path.exists():
        return read_lessons(path)
    lessons = load_lessons()
    if path is not None:
        write_lessons(lessons, path)
    return lessons


def write_lessons(lessons: Lessons, path: Path) -> None:
    """Write each passage once, and lessons with their passages' numbers."""
    numbers: dict[Passage, int] = {}

    def numbered(passages: Iterable[Passage]) -> list[int]:
        return [numbers.setdefault(passage, len(numbers)) for passage in passages]

    def row(one: Lesson) -> list[Any]:
        plain = [one.key, one.source, one.question, one.answer]
        return [*plain, numbered(one.gold), numbered(one.others), one.is_multihop]

    rows = {name: [row(one) for one in getattr(lessons, name)] for name in ("train", "dev")}
    rows["passages"] = [[p.key, p.title, p.text] for p in numbers]
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(rows, file)


def read_lessons(path: Path) -> Lessons:
    """Read what `write_lessons` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)
    passages = [Passage(*parts) for parts in rows["passages"]]

    def lesson(row: list[Any]) -> Lesson:
        *plain, gold, others, is_multihop = row
        shown = (tuple(passages[number] for number in part) for part in (gold, others))
        return Lesson(*plain, *shown, is_multihop)

    return Lessons(*(tuple(map(lesson, rows[name])) for name in ("train", "dev")))
