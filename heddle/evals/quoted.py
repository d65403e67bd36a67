"""What an outcome's quotations tell: the best one, its score, and whether it was given."""

from typing import Final

from heddle.core.quotations import Quotation, Quotations
from heddle.evals.run import Outcome

QUOTES: Final = "quotes"


def best_quotation(outcome: Outcome) -> Quotation | None:
    """Return the best quote, found or only near; None = there is none."""
    quotations = _quotations(outcome)
    if quotations is None:
        return None
    return next(iter(quotations.found or quotations.nearest), None)


def best_score(outcome: Outcome) -> float | None:
    """Return the score of the best quote, found or only near; None = there is none."""
    best = best_quotation(outcome)
    return None if best is None else best.score


def is_found(outcome: Outcome) -> bool:
    """Whether a quote was given as the answer."""
    quotations = _quotations(outcome)
    return quotations is not None and bool(quotations.found)


def is_declined(outcome: Outcome) -> bool:
    """Whether a model that quotes has said that the passages hold no answer."""
    return _quotations(outcome) is not None and not is_found(outcome)


def _quotations(outcome: Outcome) -> Quotations | None:
    value = outcome.answer.slots.get(QUOTES) if outcome.answer else None
    return value if isinstance(value, Quotations) else None
