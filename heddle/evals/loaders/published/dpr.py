"""DPR's JSON of NQ, TriviaQA and others: `biencoder-nq-dev.json`. (Karpukhin et al. 2020)"""

from collections.abc import Iterable, Iterator
from typing import Final

from heddle.core.passages import Passage
from heddle.evals.loaders.passage_rows import accepted_answers
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

GOLD: Final = "positive_ctxs"
OTHERS: Final = ("hard_negative_ctxs", "negative_ctxs")


def read_dpr(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions; passages are the positive ones, then the others, each once.

    Any positive passage is gold.

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, question_id: str) -> EvalQuestion:
    positive = tuple(_passages(row, GOLD, question_id))
    others = (
        one for field in OTHERS if row.has(field) for one in _passages(row, field, question_id)
    )
    passages = {one.document_id: one for one in (*positive, *others)}
    gold = tuple(dict.fromkeys(one.document_id for one in positive))
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("question"),
        answers=accepted_answers(row),
        passages=tuple(passages.values()),
        gold=(gold,) if gold else (),
        kind=row.text("dataset", "all"),
    )


def _passages(row: Row, field: str, question_id: str) -> Iterator[Passage]:
    for index, one in enumerate(row.rows(field)):
        default = f"{question_id}/{field}/{index}"
        passage_id = next(
            (one.text(key) for key in ("passage_id", "psg_id") if one.has(key)), default
        )
        yield given_passage(passage_id, one.text("title", ""), one.filled_text("text"))
