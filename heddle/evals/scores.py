"""Every metric of every question, and their means by kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.evals.judging.judgement import Judgement
from heddle.evals.metrics.bootstrap import Estimate, estimate_mean
from heddle.evals.metrics.exact_match import exact_match, exact_match_of_all
from heddle.evals.metrics.retrieval import answer_in_passages, recall_at
from heddle.evals.metrics.rouge import rouge_1, rouge_l
from heddle.evals.metrics.token_f1 import token_f1
from heddle.evals.metrics.word_overlap import word_overlap
from heddle.evals.question import EvalQuestion
from heddle.evals.quoted import best_quotation
from heddle.evals.run import Outcome

EXACT_MATCH: Final = "exact_match"
F1: Final = "f1"
JUDGED_FAITHFULNESS: Final = "judged_faithfulness"
RECALL_DEPTHS: Final = (1, 5)
METRICS: Final = (
    EXACT_MATCH,
    F1,
    "rouge_1",
    "rouge_l",
    "word_overlap",
    JUDGED_FAITHFULNESS,
    "answer_in_passages",
    *(f"recall@{depth}" for depth in RECALL_DEPTHS),
    "recall",
)
ALL_KINDS: Final = "all"


@dataclass(frozen=True, slots=True)
class Scored:
    """An outcome with the metrics that are defined for it; None = undefined.

    `judgement` is what a judge made of it; None = it was not laid before one.
    """

    outcome: Outcome
    values: Mapping[str, float | None]
    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class KindScores:
    """The means of a kind of question; None = the metric is defined for none of them."""

    kind: str
    questions: int
    failed: int
    means: Mapping[str, Estimate | None]


def score(outcome: Outcome, judgement: Judgement | None = None) -> Scored:
    """Return the metrics of an outcome.

    A question that failed counts as answered wrongly: the quality metrics are 0, and what needs
    an answer or its passages is undefined. Recall is defined only where something was retrieved.
    The best quote counts even where its score says that nothing answers: see `evals.declining`.
    """
    question = outcome.case.question
    text = outcome.answer.text if outcome.answer else ""
    quoted = best_quotation(outcome)
    if quoted is not None:
        text = quoted.text
    values = dict.fromkeys(METRICS, None) | _quality(question, text, outcome.answer is None)
    if outcome.answer is not None:
        shown = outcome.answer.passages
        values["word_overlap"] = word_overlap(text, shown)
        values["answer_in_passages"] = answer_in_passages(
            question.answers, shown, requires_all=question.requires_all_answers
        )
        if outcome.case.passages is None:
            for depth in RECALL_DEPTHS:
                values[f"recall@{depth}"] = recall_at(depth, shown, question.gold)
            values["recall"] = recall_at(None, shown, question.gold)
    if judgement is not None:
        values[JUDGED_FAITHFULNESS] = judgement.faithfulness
    return Scored(outcome, values, judgement)


def scores_by_kind(scored: Sequence[Scored], seed: int) -> tuple[KindScores, ...]:
    """Return the means of every kind, by name, and of all questions last."""
    kinds = sorted({one.outcome.case.question.kind for one in scored})
    groups = {k: [s for s in scored if s.outcome.case.question.kind == k] for k in kinds}
    groups.pop(ALL_KINDS, None)
    groups[ALL_KINDS] = list(scored)
    return tuple(_kind_scores(kind, group, seed) for kind, group in groups.items())


def _quality(question: EvalQuestion, text: str, is_failed: bool) -> dict[str, float | None]:
    if not question.answers:
        return {}
    names = (EXACT_MATCH, F1, "rouge_1", "rouge_l")
    if is_failed:
        return dict.fromkeys(names, 0.0)
    if question.requires_all_answers:
        references: tuple[str, ...] = (" ".join(question.answers),)
        match = exact_match_of_all(text, question.answers)
    else:
        references = question.answers
        match = exact_match(text, references)
    found = (
        match,
        token_f1(text, references),
        rouge_1(text, references),
        rouge_l(text, references),
    )
    return dict(zip(names, found, strict=True))


def _kind_scores(kind: str, group: Sequence[Scored], seed: int) -> KindScores:
    means = {}
    for name in METRICS:
        defined = [value for one in group if (value := one.values[name]) is not None]
        means[name] = estimate_mean(defined, seed) if defined else None
    return KindScores(kind, len(group), sum(one.outcome.answer is None for one in group), means)
