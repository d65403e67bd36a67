"""Load the demo corpus and its questions from the package's own data files."""

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

DOCUMENTS_FILE = "town.jsonl"
QUESTIONS_FILE = "questions.jsonl"
STREAM_QUESTION_COUNT = 40
PARAGRAPH_BORDER = "\n\n"


class QuestionKind(StrEnum):
    """Which passages the answer to a question needs."""

    SINGLE_HOP = "single_hop"
    """One passage holds the subject and the answer."""
    TWO_HOP = "two_hop"
    """One passage names a person or building; a passage of another document describes it."""
    ACROSS_PASSAGES = "across_passages"
    """A later passage of the same document says only `she`, `the company` or `they`."""


@dataclass(frozen=True, slots=True)
class DemoDocument:
    """A document of one to three paragraphs, parted by a blank line.

    Each paragraph has 40 to 120 words and is meant to become one passage.
    """

    id: str
    title: str
    text: str

    @property
    def paragraphs(self) -> tuple[str, ...]:
        """The paragraphs in their order."""
        return tuple(self.text.split(PARAGRAPH_BORDER))


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question with its accepted answers and the passages that are needed to answer it."""

    id: str
    question: str
    answers: tuple[str, ...]
    gold: tuple[tuple[str, int], ...]
    """Pairs of document id and paragraph index, counted from 0; all of them are needed."""
    kind: QuestionKind
    workflow: str
    """The ready-made workflow that the demo runs: oneshot, hyde, multistep, irg or recomp."""


@cache
def demo_documents() -> tuple[DemoDocument, ...]:
    """Return the documents of the town's archive, in the order of the data file."""
    return tuple(DemoDocument(**row) for row in _rows(DOCUMENTS_FILE))


@cache
def demo_questions() -> tuple[DemoQuestion, ...]:
    """Return all questions; the first `STREAM_QUESTION_COUNT` are the demo's stream."""
    return tuple(
        DemoQuestion(
            id=row["id"],
            question=row["question"],
            answers=tuple(row["answers"]),
            gold=tuple((document_id, paragraph) for document_id, paragraph in row["gold"]),
            kind=QuestionKind(row["kind"]),
            workflow=row["workflow"],
        )
        for row in _rows(QUESTIONS_FILE)
    )


def _rows(file_name: str) -> list[dict[str, Any]]:
    text = resources.files(__package__).joinpath("data", file_name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
