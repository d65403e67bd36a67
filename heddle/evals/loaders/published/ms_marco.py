"""MS MARCO's question answering, version 2.1: `dev_v2.1.json`, or a line a question.

The file is one object of columns (`query`, `answers`, `passages`, `query_type`, ...), each an
object by question number. (Bajaj et al. 2016)
"""

from collections.abc import Iterable, Iterator
from typing import Final

from heddle.evals.metrics.replies import NOT_IN_NOTES
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

NO_ANSWER: Final = "No Answer Present."
_COLUMNS: Final = ("query", "query_id", "query_type", "answers", "wellFormedAnswers", "passages")


def ms_marco_rows(document: Row) -> Iterator[Row]:
    """Give the questions of a file of columns, one row each.

    Raises:
        InputError: a column is no object, or lacks a question that `query` has.
    """
    columns = {name: document.row(name) for name in _COLUMNS if document.has(name)}
    for number in columns["query"].fields:
        for name, column in columns.items():
            if number not in column.fields:
                document.refuse(name, f"has no entry {number!r}, which query has")
        fields = {name: column.fields[number] for name, column in columns.items()}
        yield Row(f"{document.where}, entry {number!r}", fields)


def read_ms_marco(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions, each with its ten passages; any passage that is selected is gold.

    A question that the passages don't answer wants the reply "not in the notes".

    Raises:
        InputError: a field is missing or not as it should be. The evaluation file has no answers.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, default_id: str) -> EvalQuestion:
    question_id = str(row.number("query_id")) if row.has("query_id") else default_id
    listed = row.rows("passages")
    passages = tuple(
        given_passage(f"{question_id}/{index}", "", one.filled_text("passage_text"))
        for index, one in enumerate(listed)
    )
    selected = tuple(
        passage.document_id
        for one, passage in zip(listed, passages, strict=True)
        if one.has("is_selected") and one.number("is_selected")
    )
    answers = _answers(row)
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("query"),
        answers=answers or (NOT_IN_NOTES,),
        passages=passages,
        gold=(selected,) if selected else (),
        kind=row.text("query_type", "all") if answers else "impossible",
    )


def _answers(row: Row) -> tuple[str, ...]:
    """Return the answers that people wrote; empty where they found none."""
    found = list(row.texts("answers"))
    if not found:
        row.refuse("answers", f"must have at least one answer, or {NO_ANSWER!r}")
    # A question without a well-formed answer has the text "[]" there.
    if row.has("wellFormedAnswers") and row.fields["wellFormedAnswers"] != "[]":
        found += row.texts("wellFormedAnswers")
    return tuple(dict.fromkeys(one for one in found if one.strip() and one != NO_ANSWER))
