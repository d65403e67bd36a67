"""HotpotQA and 2WikiMultihopQA: `hotpot_dev_distractor_v1.json`, `dev.json` of 2Wiki.

Source: Yang et al. 2018; Ho et al. 2020.
"""

from collections.abc import Iterable, Iterator

from heddle.core.passages import Passage
from heddle.evals.question import EvalQuestion, given_passage
from heddle.evals.row import Row


def read_hotpot(rows: Iterable[Row], name: str) -> tuple[EvalQuestion, ...]:
    """Return the questions, each with its paragraphs; a paragraph's id is its title.

    Gold are the paragraphs that `supporting_facts` name. The full-wiki files lack some of
    them: those are left out of gold.

    Raises:
        InputError: a field is missing or not as it should be. The test files have no answers.
    """
    return tuple(_question(row, f"{name}-{number}") for number, row in enumerate(rows, start=1))


def _question(row: Row, default_id: str) -> EvalQuestion:
    passages = tuple(_passages(row))
    titles = {passage.document_id for passage in passages}
    facts = dict.fromkeys(title for title, _ in _facts(row))
    return EvalQuestion(
        id=row.text("_id", default_id),
        question=row.filled_text("question"),
        answers=(row.filled_text("answer"),),
        passages=passages,
        gold=tuple((title,) for title in facts if title in titles),
        kind=row.text("type", "all"),
    )


def _passages(row: Row) -> Iterator[Passage]:
    for index, (title, sentences) in enumerate(row.titled("context")):
        if not isinstance(sentences, list) or not all(isinstance(one, str) for one in sentences):
            row.refuse("context", f"[{index}]: must be [title, [sentence, ...]]")
        # HotpotQA's sentences begin with a blank, 2Wiki's don't.
        text = " ".join(sentence.strip() for sentence in sentences)
        yield given_passage(title, title, text)


def _facts(row: Row) -> tuple[tuple[str, object], ...]:
    return row.titled("supporting_facts") if row.has("supporting_facts") else ()
