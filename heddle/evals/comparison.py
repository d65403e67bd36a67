"""A run beside an earlier one on the same questions: paired differences, normalised F1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import InputError
from heddle.evals.metrics.bootstrap import Estimate, estimate_difference, estimate_mean
from heddle.evals.metrics.normalized_f1 import NormalizedF1, normalized_f1
from heddle.evals.question import EvalQuestion
from heddle.evals.row import Row, json_document
from heddle.evals.scores import F1, METRICS, Scored


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The result file of a run: every question's text and metrics, by question id."""

    path: Path
    dataset: str
    questions: Mapping[str, str]
    scores: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric here and there, over the questions for which both have it."""

    metric: str
    here: Estimate
    there: Estimate
    difference: Estimate

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the difference leaves 0 out."""
        return self.difference.low > 0 or self.difference.high < 0


def read_run(path: Path) -> EarlierRun:
    """Return a run that `heddle eval --json` wrote.

    Raises:
        InputError: the file is missing or is no such result.
    """
    content = json_document(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is no result of heddle eval: it must be a JSON object")
    result = Row(str(path), content)
    rows = {row.text("id"): row for row in result.rows("rows")}
    return EarlierRun(
        path,
        result.row("settings").text("dataset"),
        {name: row.text("question") for name, row in rows.items()},
        {name: _scores(row.row("scores")) for name, row in rows.items()},
    )


def require_comparable(
    earlier: EarlierRun, dataset: str, questions: Sequence[EvalQuestion]
) -> None:
    """Make sure, before a long run, that it can be compared with an earlier one.

    Raises:
        InputError: the earlier run is of another data set, or has none of these questions.
    """
    if earlier.dataset != dataset:
        raise InputError(f"{earlier.path} is a run of {earlier.dataset!r}, not of {dataset!r}")
    shared = [question for question in questions if question.id in earlier.questions]
    if not shared:
        raise InputError(
            f"{earlier.path} has none of these questions: use the same --questions and --seed"
        )
    for question in shared:
        known = earlier.questions[question.id]
        if known != question.question:
            raise InputError(
                f"{earlier.path}: question {question.id!r} asks {known!r}, here it asks "
                f"{question.question!r}: the runs are of different data"
            )


def differences(scored: Sequence[Scored], earlier: EarlierRun, seed: int) -> tuple[Difference, ...]:
    """Return here minus there for every metric that both runs have, paired by question."""
    found = []
    for metric in METRICS:
        pairs = _paired(scored, (earlier,), metric)
        if pairs:
            here, there = zip(*pairs, strict=True)
            found.append(
                Difference(
                    metric,
                    estimate_mean(here, seed),
                    estimate_mean(there, seed),
                    estimate_difference(here, there, seed),
                )
            )
    return tuple(found)


def normalized_f1_of(
    scored: Sequence[Scored], full: EarlierRun, reuse: EarlierRun, seed: int
) -> NormalizedF1 | None:
    """Return the normalised F1 of a run between full attention and full reuse. (FusionRAG eq. 11)

    None = there is no question that all three runs scored.
    """
    triples = _paired(scored, (full, reuse), F1)
    if not triples:
        return None
    here, with_full, with_reuse = zip(*triples, strict=True)
    return normalized_f1(here, with_full, with_reuse, seed)


def _paired(
    scored: Sequence[Scored], others: Sequence[EarlierRun], metric: str
) -> list[tuple[float, ...]]:
    """Return a metric in this run and the others, for the questions where all have it."""
    found = []
    for one in scored:
        name = one.outcome.case.question.id
        there = [other.scores.get(name, {}).get(metric) for other in others]
        values = [value for value in (one.values[metric], *there) if value is not None]
        if len(values) == 1 + len(others):
            found.append(tuple(values))
    return found


def _scores(row: Row) -> dict[str, float | None]:
    return {
        name: row.number(name) if row.has(name) else None for name in METRICS if name in row.fields
    }
