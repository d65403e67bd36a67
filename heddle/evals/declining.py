"""What a run of quoted answers shows beside their quality: the order of passages, and declining."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from heddle.core.passages import Passage
from heddle.evals.context import DOCS
from heddle.evals.metrics.declining import auroc, declined_at
from heddle.evals.question import EvalQuestion, is_gold
from heddle.evals.quoted import best_score, is_found
from heddle.evals.run import Outcome
from heddle.evals.scores import F1, Scored

RIGHT_F1: Final = 0.5  # from which on an answer counts as right
KEPT: Final = 0.95


def quoting_headline(scored: Sequence[Scored], hidden: Sequence[Outcome]) -> dict[str, float]:
    """Return the flat numbers of a run that quotes; {} where nothing was quoted.

    Args:
        scored: the run.
        hidden: the same questions without the passages that answer them; () = they weren't asked.
    """
    found: dict[str, float] = {}
    best = f1_best_quarter(scored)
    if best is not None:
        found["f1_best_quarter"] = best
    found |= gold_first([one.outcome for one in scored])
    known = declining(scored, hidden) if hidden else None
    return found if known is None else {**found, **asdict(known)}


@dataclass(frozen=True, slots=True)
class Declining:
    """How well the score of a quote separates right answers from questions without one.

    Args:
        auroc: the chance that a right answer scores above a question without an answer.
        declined_at_95: the share of the latter below the score that 95 % of the right reach.
        declined_shipped: their share below the threshold that the model ships with.
        kept_shipped: the share of right answers that it keeps.
    """

    auroc: float
    declined_at_95: float
    declined_shipped: float
    kept_shipped: float


def declining(answerable: Sequence[Scored], hidden: Sequence[Outcome]) -> Declining | None:
    """Compare the scores of two runs of the same questions; None = no answer is right."""
    right = [
        one for one in answerable if (one.values[F1] or 0.0) >= RIGHT_F1 and one.outcome.answer
    ]
    positive = [score for one in right if (score := best_score(one.outcome)) is not None]
    negative = [score for one in hidden if (score := best_score(one)) is not None]
    area = auroc(positive, negative)
    if area is None:
        return None
    declined, _ = declined_at(KEPT, positive, negative)
    refused = [not is_found(one) for one in hidden if one.answer is not None]
    kept = [is_found(one.outcome) for one in right]
    return Declining(area, declined, _share(refused), _share(kept))


def gold_first(outcomes: Sequence[Outcome]) -> Mapping[str, float]:
    """Return how often the gold passage is first: as read, as found, and the gain.

    Only questions count of which a search found a gold passage.
    """
    ranked, unranked = [], []
    for outcome in outcomes:
        if outcome.case.passages is not None:
            continue  # they were given: no search has put them into an order
        answer, question = outcome.answer, outcome.case.question
        found = answer.slots.get(DOCS) if answer else None
        if answer is None or not answer.passages or not isinstance(found, tuple):
            continue
        if not any(_is_gold(passage, question) for passage in found):
            continue
        ranked.append(_is_gold(answer.passages[0], question))
        unranked.append(_is_gold(found[0], question))
    if not ranked:
        return {}
    first, before = _share(ranked), _share(unranked)
    return {"gold_first": first, "gold_first_unranked": before, "gold_gain": first - before}


def f1_best_quarter(scored: Sequence[Scored]) -> float | None:
    """Return the mean F1 of the quarter of the questions with the best scores; None = no scores."""
    pairs = [
        (score, one.values[F1] or 0.0)
        for one in scored
        if (score := best_score(one.outcome)) is not None
    ]
    pairs.sort(key=lambda pair: -pair[0])
    best = pairs[: max(1, len(pairs) // 4)]
    return sum(f1 for _, f1 in best) / len(best) if best else None


def _is_gold(passage: Passage, question: EvalQuestion) -> bool:
    return any(is_gold(passage, group) for group in question.gold)


def _share(marks: Sequence[bool]) -> float:
    return sum(marks) / len(marks) if marks else 0.0
