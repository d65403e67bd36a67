"""Whether a demo answer is right, and whether its gold passages reached the prompt."""

from collections.abc import Sequence

from heddle.core.passages import Passage
from heddle.demo.corpus import DemoDocument, DemoQuestion
from heddle.evals.metrics.normalized_text import normalized_text


def is_right(question: DemoQuestion, answer: str) -> bool:
    """Whether an accepted answer, normalised, equals the given one or stands in it."""
    words = f" {normalized_text(answer)} "
    return any(f" {normalized_text(accepted)} " in words for accepted in question.answers)


def gold_in_context(
    question: DemoQuestion, passages: Sequence[Passage], documents: dict[str, DemoDocument]
) -> bool:
    """Whether every gold paragraph is in a passage of its document."""
    return all(
        any(_holds(passage, documents[document_id], index) for passage in passages)
        for document_id, index in question.gold
    )


def _holds(passage: Passage, document: DemoDocument, index: int) -> bool:
    paragraph = " ".join(document.paragraphs[index].split())
    return paragraph in " ".join(passage.text.split()) and passage.title == document.title
