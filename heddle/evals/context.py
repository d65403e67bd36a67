"""Which passages a question is answered from, and the workflow that fits."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from heddle.core.errors import InputError
from heddle.core.passages import Passage
from heddle.evals.data_folder import data_file
from heddle.evals.dataset import Dataset
from heddle.evals.loaders.corpus import read_passages
from heddle.evals.question import EvalQuestion, is_gold
from heddle.workflow.presets import add_answer
from heddle.workflow.ragraph import RAGraph

DOCS = "docs"
ANSWERS = "answers"


class Context(Enum):
    """Where a prompt's passages come from."""

    RETRIEVED = "retrieved"
    OWN = "own"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Case:
    """A question to run; `passages` are those it is given, None = the workflow retrieves.

    With `names_answers` the workflow gets the accepted answers, too, as input `answers`.
    """

    question: EvalQuestion
    passages: tuple[Passage, ...] | None
    names_answers: bool = False

    @property
    def inputs(self) -> dict[str, object]:
        """The workflow's inputs."""
        values: dict[str, object] = {"query": self.question.question}
        if self.passages is not None:
            values[DOCS] = self.passages
        if self.names_answers:
            values[ANSWERS] = self.question.answers
        return values


def given_passages() -> RAGraph:
    """Return the workflow that answers from passages it is given, with the presets' prompt."""
    graph = RAGraph("given", inputs=(DOCS,))
    add_answer(graph)
    return graph


def sample(dataset: Dataset, count: int | None, seed: int) -> tuple[EvalQuestion, ...]:
    """Return some of a data set's questions in its order: an equal chance for each, by seed.

    Raises:
        InputError: `count` is below 1.
    """
    if count is None:
        return dataset.questions
    if count < 1:
        raise InputError(f"questions must be at least 1, got {count}")
    if count >= len(dataset.questions):
        return dataset.questions
    chosen = sorted(random.Random(seed).sample(range(len(dataset.questions)), count))
    return tuple(dataset.questions[index] for index in chosen)


def cases_for(
    dataset: Dataset, questions: tuple[EvalQuestion, ...], context: Context
) -> tuple[Case, ...]:
    """Return the cases of a run.

    Raises:
        InputError: the data set has no passages of that sort.
    """
    if context is Context.RETRIEVED:
        return tuple(Case(question, None) for question in questions)
    if context is Context.ORACLE:
        return _oracle_cases(dataset, questions)
    if not dataset.has_passages:
        raise InputError(
            f"the questions of {dataset.name} have no passages of their own: name an index with "
            "--index DIR" + (", or use --oracle-passage" if dataset.has_gold else "")
        )
    return tuple(Case(question, question.passages) for question in questions)


def passage_cases(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return a case for each passage alone, each once: running them computes its KV for reuse."""
    alone = {
        passage: Case(case.question, (passage,))
        for case in cases
        for passage in case.passages or ()
    }
    return tuple(alone.values())


def _oracle_cases(dataset: Dataset, questions: tuple[EvalQuestion, ...]) -> tuple[Case, ...]:
    if not dataset.has_gold:
        raise InputError(f"nobody marked the gold passages of {dataset.name}")
    if dataset.has_passages:
        return tuple(Case(question, _own_gold(question)) for question in questions)
    if dataset.corpus is None:
        raise InputError(f"the gold passages of {dataset.name} are in no corpus file")
    wanted = frozenset(group[0] for question in questions for group in question.gold)
    texts = read_passages(data_file(dataset.corpus), wanted)
    return tuple(
        Case(question, tuple(texts[group[0]] for group in question.gold)) for question in questions
    )


def _own_gold(question: EvalQuestion) -> tuple[Passage, ...]:
    return tuple(
        passage
        for passage in question.passages or ()
        if any(is_gold(passage, group) for group in question.gold)
    )
