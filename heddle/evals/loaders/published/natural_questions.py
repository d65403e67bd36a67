"""Natural Questions with their pages: `nq-dev-00.jsonl.gz`, `v1.0-simplified-nq-train.jsonl.gz`.

A page is a list of tokens; every span is [start_token, end_token) of it. The simplified files
have the tokens as one text, `document_text`, separated by blanks. (Kwiatkowski et al. 2019)
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.evals.metrics.replies import NOT_IN_NOTES
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row

# Of the five people who annotated a question of the dev part, this many have to find an answer:
# the set's own evaluation has this bar. A question of the train part was annotated by one.
ANNOTATORS_MIN: Final = 2
_TAG: Final = re.compile(r"<[^ ]+>")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Page:
    """A page's tokens; those that are HTML are empty texts."""

    tokens: Sequence[str]

    def text(self, span: Span) -> str:
        return " ".join(token for token in self.tokens[span[0] : span[1]] if token)


def read_natural_questions(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions; passages are the top-level parts of the page, as the set marks them.

    A part is a paragraph, table or list. Gold is any part that an annotator's long answer lies in.
    Answers are the short ones; where there are none, yes or no, else the long answers.
    A question without an answer wants the reply "not in the notes".

    Raises:
        InputError: a field is missing or not as it should be.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, default_id: str) -> EvalQuestion:
    question_id = str(row.number("example_id")) if row.has("example_id") else default_id
    page = _page(row)
    parts = [
        _span(one, page)
        for one in row.rows("long_answer_candidates")
        if one.flag("top_level", default=True)
    ]
    title = row.text("document_title", "")
    passages = tuple(
        given_passage(_part_id(question_id, part), title, page.text(part)) for part in parts
    )
    annotations = row.rows("annotations")
    kind, answers = _answers(annotations, page)
    long = [span for one in annotations if (span := _long(one, page))]
    gold = tuple(
        _part_id(question_id, part)
        for part in parts
        if any(part[0] <= span[0] and span[1] <= part[1] for span in long)
    )
    return EvalQuestion(
        id=question_id,
        question=row.filled_text("question_text"),
        answers=answers or (NOT_IN_NOTES,),
        passages=passages,
        gold=(gold,) if gold and answers else (),
        kind=kind,
    )


def _part_id(question_id: str, part: Span) -> str:
    return f"{question_id}/{part[0]}"


def _page(row: Row) -> _Page:
    if row.has("document_text"):
        tokens = row.text("document_text").split(" ")
        return _Page([("" if _TAG.fullmatch(token) else token) for token in tokens])
    listed = row.rows("document_tokens")
    return _Page([("" if one.flag("html_token") else one.text("token")) for one in listed])


def _span(row: Row, page: _Page) -> Span:
    start, end = row.whole("start_token"), row.whole("end_token")
    if not 0 <= start <= end <= len(page.tokens):
        row.refuse("end_token", f"must lie behind start_token in the page's {len(page.tokens)}")
    return start, end


def _long(annotation: Row, page: _Page) -> Span | None:
    """Return a person's long answer; None where the person marked none (-1)."""
    row = annotation.row("long_answer")
    return None if row.whole("start_token") < 0 else _span(row, page)


def _answers(annotations: Sequence[Row], page: _Page) -> tuple[str, tuple[str, ...]]:
    """Return the kind of the answers that enough people agree there are, and the answers."""
    short = [
        [page.text(_span(span, page)) for span in one.rows("short_answers")] for one in annotations
    ]
    decided = [one.text("yes_no_answer", "NONE").lower() for one in annotations]
    long = [page.text(span) for one in annotations if (span := _long(one, page))]
    wanted = min(ANNOTATORS_MIN, len(annotations))
    given = {
        "short": [texts for texts in short if texts],
        "yes/no": [[text] for text in decided if text != "none"],
        "long": [[text] for text in long],
    }
    for kind, texts in given.items():
        if wanted and len(texts) >= wanted:
            return kind, tuple(dict.fromkeys(text for of_one in texts for text in of_one if text))
    return "impossible", ()
