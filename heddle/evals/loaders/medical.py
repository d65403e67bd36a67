"""MedQuAD: medical questions whose answer is a whole text, cut into passages (med_single)."""

from pathlib import Path

from heddle.evals.loaders.corpus import read_passages
from heddle.evals.question import EvalQuestion
from heddle.evals.row import json_lines


def read_medical(path: Path, corpus: Path) -> tuple[EvalQuestion, ...]:
    """Return the questions; the answer is the text of the gold passages, joined in order.

    It is long, so ROUGE-L and recall say something and exact match says nothing.

    Raises:
        InputError: a file or a field is not as it should be, or a gold passage is missing.
    """
    passages = read_passages(corpus)
    found = []
    for row in json_lines(path):
        gold = row.texts("gold")
        if unknown := [name for name in gold if name not in passages]:
            row.refuse("gold", f"names {unknown[0]!r}, which {corpus} lacks")
        found.append(
            EvalQuestion(
                id=row.text("id"),
                question=row.filled_text("question"),
                answers=(" ".join(passages[name].text for name in gold),) if gold else (),
                gold=tuple((name,) for name in gold),
                kind=row.text("qtype"),
            )
        )
    return tuple(found)
