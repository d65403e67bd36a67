"""Questions about manuals: documentation that Python and installed packages carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.manuals.page import ManualPage, one_line
from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row, json_lines

UNANSWERABLE: Final = "unanswerable"
TUNING: Final = "tuning"
FIGURE: Final = "figure"
PARTS: Final = (TUNING, FIGURE)


@dataclass(frozen=True, slots=True)
class ManualQuestions:
    """Questions that the pages at hand can decide, and why each of the others is left out."""

    asked: tuple[EvalQuestion, ...]
    skipped: tuple[str, ...]


def questions_file() -> Path:
    """Return the file with the questions, which is part of Heddle."""
    return Path(str(files("heddle.evals") / "data" / "manuals.jsonl"))


def read_manuals(path: Path, pages: Sequence[ManualPage], part: str) -> ManualQuestions:
    """Return the questions of one part that hold for these pages.

    Fields: `id`, `part` (tuning or figure), `kind`, `question`, `answers`, `page`, and
    `evidence` (words of the page that stand beside the answer) or, of a question without an
    answer, `absent` (words that the page must lack, else it may answer).

    Raises:
        InputError: the file, a line or a field is not as it should be.
    """
    texts = {page.name: one_line(page.text).lower() for page in pages}
    asked, skipped = [], []
    for row in json_lines(path):
        if row.text("part") not in PARTS:
            row.refuse("part", f"must be {' or '.join(PARTS)}")
        if row.text("part") != part:
            continue
        question = _question(row)
        doubt = _doubt(row, texts)
        if doubt:
            skipped.append(f"{question.id}: {doubt}")
        else:
            asked.append(question)
    return ManualQuestions(tuple(asked), tuple(skipped))


def _question(row: Row) -> EvalQuestion:
    kind = row.filled_text("kind")
    return EvalQuestion(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answers=() if kind == UNANSWERABLE else accepted_answers(row),
        kind=kind,
    )


def _doubt(row: Row, texts: Mapping[str, str]) -> str:
    """Return why the pages at hand don't decide a question; "" where they do."""
    name = row.filled_text("page")
    text = texts.get(name)
    if text is None:
        return f"{name} is not installed"
    if row.text("kind") != UNANSWERABLE:
        evidence = one_line(row.filled_text("evidence"))
        return "" if evidence.lower() in text else f"{name} doesn't say {evidence!r} here"
    present = [words for words in row.texts("absent") if one_line(words).lower() in text]
    return f"{name} speaks of {present[0]!r} here" if present else ""
