"""WikiQA: `WikiQA.tsv`, `WikiQA-dev.tsv`: a line for each candidate sentence. (Yang et al. 2015)"""

from collections.abc import Iterable, Sequence
from typing import Final

from heddle.evals.metrics.replies import NOT_IN_NOTES
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

LABELS: Final = ("0", "1")


def read_wikiqa(rows: Iterable[Row]) -> tuple[EvalQuestion, ...]:
    """Return the questions, each with its page's sentences as passages.

    Any sentence labelled 1 is gold and an accepted answer: the set has no shorter ones, so
    exact match says little. A question without one wants the reply "not in the notes".

    Raises:
        InputError: a column is missing or not as it should be.
    """
    by_question: dict[str, list[Row]] = {}
    for row in rows:
        if row.text("Label").strip() not in LABELS:
            row.refuse("Label", "must be 0 or 1")
        by_question.setdefault(row.filled_text("QuestionID"), []).append(row)
    return tuple(_question(name, sentences) for name, sentences in by_question.items())


def _question(question_id: str, sentences: Sequence[Row]) -> EvalQuestion:
    passages = tuple(
        given_passage(
            row.filled_text("SentenceID"), row.text("DocumentTitle"), row.filled_text("Sentence")
        )
        for row in sentences
    )
    right = [
        passage
        for row, passage in zip(sentences, passages, strict=True)
        if row.text("Label").strip() == "1"
    ]
    return EvalQuestion(
        id=question_id,
        question=sentences[0].filled_text("Question"),
        answers=tuple(dict.fromkeys(one.text for one in right)) or (NOT_IN_NOTES,),
        passages=passages,
        gold=(tuple(one.document_id for one in right),) if right else (),
        kind="answerable" if right else "impossible",
    )
