"""Quotations: answers as they stand in passages, with the sentence around each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from heddle.core.passages import Passage
from heddle.core.results import Quote
from heddle.core.texts.sentences import sentence_around

NOT_FOUND: Final = "Not found in these documents."


@dataclass(frozen=True, slots=True)
class Quotation:
    """An answer quoted from a passage, word for word.

    Args:
        text: the answer: characters [start, end) of the passage's text.
        sentence: the sentence around it, which begins at `sentence_start`.
        passage: where it stands.
        start, end: the answer's characters in the passage's text.
        sentence_start: the sentence's first character in the passage's text.
        score: how certain the model is; "no answer" scores 0.
    """

    text: str
    sentence: str
    passage: Passage
    start: int
    end: int
    sentence_start: int
    score: float

    @classmethod
    def of(cls, quote: Quote, passage: Passage) -> Self:
        """Return a quote with the passage that it is from, and its sentence."""
        first, last = sentence_around(passage.text, quote.start, quote.end)
        return cls(
            passage.text[quote.start : quote.end],
            passage.text[first:last],
            passage,
            quote.start,
            quote.end,
            first,
            quote.score,
        )


@dataclass(frozen=True, slots=True)
class Quotations:
    """What a model that reads has found in passages.

    Args:
        found: the answers, the most certain first; () = the passages don't answer.
        nearest: where they don't: the places that come nearest, the best first.
        passages: all that were read, the best first.
    """

    found: tuple[Quotation, ...]
    nearest: tuple[Quotation, ...]
    passages: tuple[Passage, ...]

    def __str__(self) -> str:
        """Return the answer in words."""
        return self.found[0].text if self.found else NOT_FOUND


def quotations_of(
    quotes: Sequence[Quote], passages: Sequence[Passage], threshold: float
) -> Quotations:
    """Divide quotes into answers and near places.

    Args:
        quotes: the best first, each of one of the passages.
        passages: as they were read, with their scores.
        threshold: the lowest score of an answer.
    """
    both = [Quotation.of(quote, passages[quote.passage]) for quote in quotes]
    found = tuple(one for one in both if one.score >= threshold)
    ranked = sorted(passages, key=lambda passage: -(passage.score or 0.0))
    return Quotations(found, () if found else tuple(both), tuple(ranked))
