"""SQuAD's JSON, versions 1.1 and 2.0."""

from collections.abc import Iterator
from pathlib import Path

from heddle.evals.metrics.replies import NOT_IN_NOTES
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row


def read_squad(row: Row, path: Path) -> tuple[EvalQuestion, ...]:
    """Return the questions of a SQuAD file, each with its paragraph as gold passage.

    A question marked impossible wants the reply "not in the notes", which Heddle's prompts ask
    for; SQuAD 2.0's own script wants an empty one.

    Raises:
        InputError: a field is missing or not as it should be; names the file and the place.
    """
    found: list[EvalQuestion] = []
    for article in row.rows("data"):
        title = article.text("title", path.stem)
        for number, paragraph in enumerate(article.rows("paragraphs")):
            found += _questions(paragraph, title, f"{title}#{number}")
    return tuple(found)


def _questions(paragraph: Row, title: str, paragraph_id: str) -> Iterator[EvalQuestion]:
    passage = given_passage(paragraph_id, title, paragraph.filled_text("context"))
    for row in paragraph.rows("qas"):
        is_impossible = row.flag("is_impossible")
        listed = () if is_impossible else row.rows("answers")
        answers = tuple(dict.fromkeys(answer.filled_text("text") for answer in listed))
        if not answers and not is_impossible:
            row.refuse("answers", "must have at least one answer, or is_impossible must be true")
        yield EvalQuestion(
            id=row.text("id"),
            question=row.filled_text("question"),
            answers=answers or (NOT_IN_NOTES,),
            passages=(passage,),
            gold=((paragraph_id,),),
            kind="impossible" if is_impossible else "answerable",
        )
