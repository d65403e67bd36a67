"""The questions of wiki_single and wiki_multihop that no model is trained on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.evals.loaders.corpus import read_passages
from heddle.evals.question import EvalQuestion

TEST_SHARE: Final = 0.2
BY_ARTICLE: Final = "squadshifts_new_wiki"  # many questions share an article: it is held whole


def held_questions(
    questions: Sequence[EvalQuestion], corpus: Path | None = None
) -> tuple[EvalQuestion, ...]:
    """Return the last 20 % of each kind in file order; SQuADShifts' last 20 % of the articles.

    The training of the extractor draws the same line
    (`models/extractor/extractor_training/split.py`), and that of the multi-hop adapter asks here.

    Args:
        questions: of any kinds.
        corpus: where SQuADShifts' articles stand; other kinds need none.

    Raises:
        InputError: a question names no gold passage, or the corpus lacks it.
    """
    by_kind: dict[str, list[EvalQuestion]] = {}
    for question in questions:
        by_kind.setdefault(question.kind, []).append(question)
    held: list[EvalQuestion] = []
    for kind, ours in by_kind.items():
        units = _articles(ours, corpus) if kind == BY_ARTICLE else [one.id for one in ours]
        order = list(dict.fromkeys(units))
        last = set(order[int(len(order) * (1 - TEST_SHARE)) :])
        held += [one for unit, one in zip(units, ours, strict=True) if unit in last]
    return tuple(held)


def _articles(questions: Sequence[EvalQuestion], corpus: Path | None) -> list[str]:
    """Return the title of the article that each question is about."""
    assert corpus is not None, f"questions of {BY_ARTICLE} need their corpus"
    for question in questions:
        if not question.gold:
            raise InputError(f"question {question.id!r} names no gold passage")
    names = [question.gold[0][0] for question in questions]
    passages = read_passages(corpus, frozenset(names))
    return [passages[name].title for name in names]
