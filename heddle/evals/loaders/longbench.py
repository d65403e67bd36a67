"""LongBench's JSONL: a question, one long context and the accepted answers. (Bai et al. 2023)"""

import re
from collections.abc import Iterable
from typing import Final

from heddle.core.passages import Passage
from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

_PASSAGE: Final = re.compile(r"^Passage \d+:[ \t]*\n", re.MULTILINE)


def read_longbench(rows: Iterable[Row]) -> tuple[EvalQuestion, ...]:
    """Return the questions of LongBench rows.

    A context with lines "Passage 1:" is cut there, and the next line is the passage's title;
    another is one passage. `dataset` is the kind. The summary and code sets ask nothing, so
    they can't be run.

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return tuple(_question(row) for row in rows)


def _question(row: Row) -> EvalQuestion:
    question_id = row.text("_id", row.where)
    if not row.text("input").strip():
        row.refuse("input", "is empty: only LongBench's sets of questions can be evaluated")
    return EvalQuestion(
        id=question_id,
        question=row.text("input").strip(),
        answers=accepted_answers(row),
        passages=_passages(row.filled_text("context"), question_id),
        kind=row.text("dataset", "all"),
    )


def _passages(context: str, question_id: str) -> tuple[Passage, ...]:
    marks = list(_PASSAGE.finditer(context))
    if not marks:
        return (given_passage(question_id, "", context),)
    ends = [mark.start() for mark in marks[1:]] + [len(context)]
    found = []
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True), start=1):
        title, _, text = context[mark.end() : end].strip().partition("\n")
        found.append(given_passage(f"{question_id}/{number}", title.strip(), text.strip()))
    return tuple(found)
