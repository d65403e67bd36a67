"""A run as JSON: every question's row, the means by kind, and the headline."""

from collections.abc import Sequence

from heddle.evals.comparison import Difference
from heddle.evals.dataset import Dataset
from heddle.evals.judging.judgement import JudgedCounts, Judgement
from heddle.evals.metrics.bootstrap import Estimate
from heddle.evals.metrics.normalized_f1 import NormalizedF1
from heddle.evals.scores import ALL_KINDS, EXACT_MATCH, JUDGED_FAITHFULNESS, KindScores, Scored

Json = dict[str, object]


def row_record(scored: Scored) -> Json:
    """Return what is kept of a question: enough to score it again or to compare runs."""
    outcome = scored.outcome
    question, answer = outcome.case.question, outcome.answer
    return {
        "id": question.id,
        "kind": question.kind,
        "question": question.question,
        "answers": list(question.answers),
        "answer": answer.text if answer else None,
        "error": outcome.error,
        "passages": [passage.document_id for passage in answer.passages] if answer else [],
        "prompt_tokens": answer.receipt.prompt_tokens if answer else None,
        "latency_s": answer.receipt.latency_s if answer else None,
        "scores": dict(scored.values),
        "judgement": judgement_record(scored.judgement) if scored.judgement else None,
    }


def judgement_record(judgement: Judgement) -> Json:
    """Return an answer's statements with their verdicts, or why there are none."""
    pairs = zip(judgement.statements, judgement.verdicts, strict=True)
    return {
        "statements": [{"statement": text, "is_supported": verdict} for text, verdict in pairs],
        "unjudged": judgement.unjudged.value if judgement.unjudged else None,
        "error": judgement.words,
    }


def judged_headline(counts: JudgedCounts, mean: Estimate | None) -> dict[str, float]:
    """Return the flat numbers of a judged run; without any verdict there is no faithfulness."""
    numbers: dict[str, float] = {
        "judged_answers": counts.answers,
        "judged_statements": counts.statements,
        "supported_statements": counts.supported,
        "unjudged_malformed": counts.malformed,
        "unjudged_failed": counts.failed,
    }
    return numbers if mean is None else {JUDGED_FAITHFULNESS: mean.mean, **numbers}


def kind_record(scores: KindScores) -> Json:
    """Return the means of a kind with their intervals."""
    means = {name: estimate_record(mean) for name, mean in scores.means.items() if mean}
    return {
        "kind": scores.kind,
        "questions": scores.questions,
        "failed": scores.failed,
        "means": means,
    }


def headline(dataset: Dataset, kinds: Sequence[KindScores]) -> dict[str, float]:
    """Return a run's flat numbers, in [0, 1] but for the counts.

    For a data set graded by kind: the share of exact matches of each kind. For another: the mean
    of every metric that is defined, `questions` and `failed`.
    """
    if dataset.is_graded_by_kind:
        shares = {one.kind: one.means[EXACT_MATCH] for one in kinds if one.kind != ALL_KINDS}
        return {kind: share.mean for kind, share in shares.items() if share}
    everything = kinds[-1]
    means = {name: mean.mean for name, mean in everything.means.items() if mean}
    return {**means, "questions": everything.questions, "failed": everything.failed}


def difference_record(difference: Difference) -> Json:
    """Return a paired difference."""
    return {
        "metric": difference.metric,
        "here": estimate_record(difference.here),
        "there": estimate_record(difference.there),
        "difference": estimate_record(difference.difference),
    }


def normalized_f1_record(found: NormalizedF1) -> Json:
    """Return normalised F1 and the raw values."""
    return {
        "share": estimate_record(found.share) if found.share else None,
        "is_stable": found.is_stable,
        "f1": estimate_record(found.method),
        "f1_full_attention": estimate_record(found.full_attention),
        "f1_full_reuse": estimate_record(found.full_reuse),
        "loss": estimate_record(found.loss),
    }


def estimate_record(estimate: Estimate) -> dict[str, float]:
    """Return a mean, its 95 % interval and the questions behind it."""
    return {
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "questions": estimate.count,
    }
