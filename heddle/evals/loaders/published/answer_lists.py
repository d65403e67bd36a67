"""Questions with their answers and without passages, as several sets publish them.

NQ-open (`NQ-open.dev.jsonl`), WebQuestions (`webquestions.examples.test.json`), FlashRAG's
JSONL of a dozen sets, and DPR's questions (`nq-test.qa.csv`).
"""

import ast
import re
from collections.abc import Iterable
from typing import Final

from heddle.evals.loaders.passage_rows import KIND_FIELDS, answers_in
from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row

# One answer in WebQuestions' `targetValue`: (description "Padmé Amidala") or (description Okuma).
_DESCRIPTION: Final = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')
LITERAL_CHARS_MAX: Final = 100_000
_ESCAPED: Final = re.compile(r"\\(.)")


def read_open_answers(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions of rows `{question, answer: [...]}`, NQ-open's.

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return _numbered(rows, name, "question", "answer")


def read_flashrag(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions of rows `{id, question, golden_answers: [...]}`, FlashRAG's.

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return _numbered(rows, name, "question", "golden_answers")


def read_web_questions(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions of WebQuestions (Berant et al. 2013); any answer of the list is right.

    Raises:
        InputError: a field is missing, or `targetValue` is no list of descriptions.
    """
    return tuple(
        EvalQuestion(
            id=f"{name}-{number}",
            question=row.filled_text("utterance"),
            answers=_descriptions(row),
        )
        for number, row in enumerate(rows, start=1)
    )


def read_dpr_questions(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions of DPR's tables: a question, then a Python list of its answers.

    Raises:
        InputError: a line's second column is no such list.
    """
    found = []
    for number, row in enumerate(rows, start=1):
        answers = Row(row.where, {"answers": _literal(row)})
        found.append(
            EvalQuestion(
                id=f"{name}-{number}",
                question=row.filled_text("question"),
                answers=answers_in(answers, "answers"),
            )
        )
    return tuple(found)


def _numbered(
    rows: Iterable[Row], name: str, question: str, answers: str
) -> tuple[EvalQuestion, ...]:
    return tuple(
        EvalQuestion(
            id=row.text("id", f"{name}-{number}"),
            question=row.filled_text(question),
            answers=answers_in(row, answers),
            kind=next((row.text(one) for one in KIND_FIELDS if row.has(one)), "all"),
        )
        for number, row in enumerate(rows, start=1)
    )


def _descriptions(row: Row) -> tuple[str, ...]:
    found = [
        _ESCAPED.sub(r"\1", quoted) if quoted else plain.strip()
        for quoted, plain in _DESCRIPTION.findall(row.filled_text("targetValue"))
    ]
    answers = tuple(dict.fromkeys(answer for answer in found if answer))
    if not answers:
        row.refuse("targetValue", 'must be (list (description "ANSWER") ...)')
    return answers


def _literal(row: Row) -> object:
    text = row.filled_text("answers")
    if len(text) > LITERAL_CHARS_MAX:
        row.refuse("answers", f"has {len(text)} characters, over the limit of {LITERAL_CHARS_MAX}")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        row.refuse("answers", 'must be a list, such as ["1962"]')
