"""How well a model answers from reused chunk KV: policies, ratios, primed or not. (FusionRAG §5)

Who is compared with whom: one model and the same questions, each with its own passages, under full
attention and under every reuse policy, in one engine (figures 13, 16 and 18), and FusionRAG with
more or fewer neighbours (figure 17). A passage is primed with what precedes it in its document
(ADR 20), and with those that MiniLM finds nearest among the passages of 250 questions of the data
set; "nearest only": without the former, as FusionRAG has it. F1 and exact match are SQuAD's;
greedy, at most 32 tokens. "with context": the question saw the reused chunks when it selected; else
only itself, as one that runs while its passages are looked for.

The headline compares policies as published, primed with the 10 nearest; but FusionRAG's question
selects alone. nf1 is normalised F1 in percent: 0 = as bad as full reuse, 100 = as good as full
attention. gain_over_best_other is FusionRAG's F1 at 15 % minus that of the best other policy at
15 %, raw or primed, paired by question: low95 is its lower 95 % bound; gain_primed_0 is that of
primed KV over raw, both at 0 %. drop_KIND is what full reuse
loses in F1 on a kind of question. Names with "preceding" are of ADR 20's neighbours: preceding_gain
is their F1 minus that of the nearest only, at the same ratio.
Where full reuse loses less than 0.10 in all, the questions don't measure what they should.
reader-notes is asked without its comparisons: the reader that ships guesses them (half of them are
right, under full attention as under full reuse), which only adds noise to every cell.

Other data sets than reader-notes are asked in fewer cells: at 0 and 15 %, by FusionRAG and the best
other policy. Their prompts are five times as long, for models that can answer them.

--model NAME: the reader, smollm2, smollm2-multihop (which was trained on the other questions of
wiki_multihop's sets), or any that `heddle ask` takes. --dataset NAME: instead of both
reader-notes and the real multi-hop questions. --questions N of each. --bar: only the cells that
decide the headline, on reader-notes. Scores of a full run are kept in the cache as they come, so a
run that was stopped goes on; other code, weights or questions begin anew.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from benchmarks.support.data import file_digest, made_from
from benchmarks.support.neighbours import Neighbourhood, shown_passages
from benchmarks.support.reusing_model import Prompts, Reply, ReusingModel
from benchmarks.support.score_file import Score, ScoreFile
from heddle.app.models.model_source import READER
from heddle.cli.progress import ProgressLines
from heddle.core.errors import InputError
from heddle.core.kv_reuse import KvReuse, PrimedWith, QuestionPass, ReusePolicy
from heddle.core.passages import Passage
from heddle.engines.llm.model import gate as model_gate
from heddle.evals.catalogue import READER_NOTES, load_dataset
from heddle.evals.context import sample
from heddle.evals.dataset import Dataset
from heddle.evals.metrics.bootstrap import Estimate, estimate_difference, estimate_mean
from heddle.evals.metrics.exact_match import exact_match
from heddle.evals.metrics.normalized_f1 import normalized_f1
from heddle.evals.metrics.token_f1 import token_f1
from heddle.evals.question import EvalQuestion

# Of each data set; the real prompts are five times as long.
QUESTIONS: Final = {READER_NOTES: 250, "wiki_multihop": 50}
# Kinds that a model guesses, so they show no difference between policies.
GUESSED: Final = {(READER_NOTES, READER): ("comparison",)}
TOP_N: Final = 10
TOP_NS: Final = (2, 5, 10, 15)
RATIO: Final = 0.15
RATIOS: Final = (0.05, 0.10, RATIO, 0.30)
LOSS_MIN: Final = 0.10  # what full reuse has to lose for the set to measure anything
KINDS: Final = ("coreference", "two_hop")


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to answer: a policy, its ratio, and the neighbours of primed KV (0 = raw KV)."""

    policy: ReusePolicy
    ratio: float = 0.0
    top_n: int = 0
    question: QuestionPass = QuestionPass.ALONE
    nearest_only: bool = False

    @property
    def name(self) -> str:
        """What tables and the score file call it."""
        primed = f" top-{self.top_n}" if self.top_n else ""
        context = " with context" if self.question is QuestionPass.WITH_CONTEXT else ""
        nearest = " nearest only" if self.nearest_only else ""
        return f"{self.policy.value} {self.ratio:.2f}{primed}{context}{nearest}"

    @property
    def reuse(self) -> KvReuse:
        """What its requests ask for."""
        return KvReuse(
            self.policy,
            self.ratio,
            primed=self.top_n > 0,
            question=self.question,
            primed_with=self.primed_with,
            always=True,
        )

    @property
    def primed_with(self) -> PrimedWith:
        """Which neighbours its KV is primed with."""
        return PrimedWith.NEAREST if self.nearest_only else PrimedWith.PRECEDING


FULL: Final = Cell(ReusePolicy.FULL)
REUSE: Final = Cell(ReusePolicy.FULL_REUSE)
PRIMED: Final = Cell(ReusePolicy.FULL_REUSE, top_n=TOP_N, nearest_only=True)
FUSIONRAG: Final = Cell(ReusePolicy.FUSIONRAG, RATIO, TOP_N, nearest_only=True)
PRECEDING_0: Final = replace(PRIMED, nearest_only=False)
PRECEDING: Final = replace(FUSIONRAG, nearest_only=False)
WITH_CONTEXT: Final = replace(PRECEDING, question=QuestionPass.WITH_CONTEXT)
# By the full table with the reader that ships; the table says if another has become better.
BEST_OTHER: Final = Cell(ReusePolicy.CACHEBLEND, RATIO, TOP_N, nearest_only=True)
BAR: Final = (FULL, REUSE, PRIMED, FUSIONRAG, PRECEDING_0, PRECEDING, BEST_OTHER)
# What is asked of slower models: those, and what priming is worth.
SHORT: Final = (
    *BAR,
    replace(FUSIONRAG, top_n=0, nearest_only=False),
    replace(BEST_OTHER, top_n=0, nearest_only=False),
)


def cells_of(name: str) -> tuple[Cell, ...]:
    """Return the cells that a data set is asked in."""
    return table_cells() if name == READER_NOTES else SHORT


def table_cells() -> tuple[Cell, ...]:
    """Return the cells of the full table, those of the headline first."""
    policies = [p for p in ReusePolicy if p not in (ReusePolicy.FULL, ReusePolicy.FULL_REUSE)]
    cells = list(BAR)
    cells += [replace(cell, ratio=ratio) for cell in (PRECEDING, WITH_CONTEXT) for ratio in RATIOS]
    cells += [replace(PRECEDING, policy=policy) for policy in policies]
    cells.append(replace(PRECEDING_0, top_n=1))
    cells += [Cell(policy, ratio) for policy in policies for ratio in RATIOS]
    cells += [
        replace(FUSIONRAG, policy=policy, ratio=ratio) for policy in policies for ratio in RATIOS
    ]
    for top_n in TOP_NS:
        cells.append(replace(PRIMED, top_n=top_n))
        cells.append(replace(FUSIONRAG, ratio=RATIOS[0], top_n=top_n))
    return tuple(dict.fromkeys(cells))


def run(
    quick: bool,
    seed: int,
    *,
    model: str = READER,
    dataset: str | None = None,
    questions: int | None = None,
    bar: bool = False,
) -> dict[str, object]:
    """Answer every question in every cell; the headline is that of the first data set."""
    is_short = quick or bar
    names = (dataset,) if dataset else (READER_NOTES,) if is_short else tuple(QUESTIONS)
    prompts = Prompts.of(model)
    tables = []
    for name in names:
        count = 10 if quick else QUESTIONS.get(name, QUESTIONS[READER_NOTES])
        try:
            whole = _with_passages(name)
        except InputError as error:
            if dataset or name == READER_NOTES:  # nothing could be said without it
                raise
            print(f"{name} is left out: {error}")
            continue
        chosen = sample(tellable(whole, model), count if questions is None else questions, seed)
        asked = replace(whole, questions=tuple(filter(prompts.fit, chosen)))
        if left_out := len(chosen) - len(asked.questions):
            print(f"{name}: {left_out} prompts exceed the model's context and are left out")
        kept = None if is_short else _score_path(asked, prompts)
        cells = BAR if is_short else cells_of(whole.name)
        table = _table(asked, whole, cells, prompts, ScoreFile(kept), seed)
        table.show()
        tables.append(table)
    return {
        "settings": {
            "model": model,
            "datasets": {table.name: len(table.questions) for table in tables},
            "cells": {table.name: [cell.name for cell in table.scores] for table in tables},
            "threads": torch.get_num_threads(),
        },
        "rows": [row for table in tables for row in table.rows()],
        "headline": tables[0].headline(),
    }


def _with_passages(name: str) -> Dataset:
    """Return a data set.

    Raises:
        InputError: it isn't there, or its questions have no passages of their own.
    """
    found = load_dataset(name)
    if not found.has_passages:
        raise InputError(f"the questions of {name} have no passages of their own")
    return found


def tellable(whole: Dataset, model: str) -> Dataset:
    """Return a data set without the kinds that a model guesses."""
    left_out = GUESSED.get((whole.name, model), ())
    return replace(whole, questions=tuple(q for q in whole.questions if q.kind not in left_out))


@dataclass(frozen=True, slots=True)
class Table:
    """The scores of a data set's questions in every cell, in the same order everywhere."""

    name: str
    questions: tuple[EvalQuestion, ...]
    scores: Mapping[Cell, tuple[Score, ...]]
    seed: int

    def f1(self, cell: Cell, kind: str | None = None) -> tuple[float, ...]:
        """Return a cell's F1 by question, of one kind or of all."""
        return tuple(s.f1 for s in self.scores[cell] if kind in (None, s.kind))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its questions."""
        return tuple(sorted({question.kind for question in self.questions}))

    @property
    def best_other(self) -> Cell:
        """The best cell at FusionRAG's ratio that is another policy in a published form."""
        others = [
            cell
            for cell in self.scores
            if cell.ratio == RATIO and cell.policy is not ReusePolicy.FUSIONRAG
            if cell.nearest_only or not cell.top_n
        ]
        return max(others, key=lambda cell: sum(self.f1(cell)))

    def headline(self) -> dict[str, float]:
        """Return the figures that the bars are about, and those of ADR 20's neighbours."""
        return {
            "nf1_fusionrag_15": self._nf1(FUSIONRAG),
            "nf1_primed_0": self._nf1(PRIMED),
            "gain_over_best_other_low95": self._gain(FUSIONRAG, self.best_other).low,
            "f1_full": self._mean(FULL),
            "f1_reuse": self._mean(REUSE),
            "f1_primed_0": self._mean(PRIMED),
            "gain_primed_0_low95": self._gain(PRIMED, REUSE).low,
            **{f"drop_{kind}": self._drop(kind) for kind in KINDS if kind in self.kinds},
            "preceding_nf1_fusionrag_15": self._nf1(PRECEDING),
            "preceding_nf1_primed_0": self._nf1(PRECEDING_0),
            "preceding_gain_fusionrag_15_low95": self._gain(PRECEDING, FUSIONRAG).low,
            "preceding_gain_primed_0_low95": self._gain(PRECEDING_0, PRIMED).low,
        }

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each cell, with its F1 by kind."""
        return [self._row(cell) for cell in self.scores]

    def show(self) -> None:
        """Print the table, and what stands against it."""
        print(f"\n{self.name}, {len(self.questions)} questions")
        columns = ("F1", "95 %", "EM", "nf1", "computed", "surveyed", *self.kinds)
        width = max(len(cell.name) for cell in self.scores)
        print(" " * width + "".join(f"{column:>13}" for column in columns))
        for row in self.rows():
            by_kind = row["f1_by_kind"]
            assert isinstance(by_kind, dict)
            shown = (
                f"{row['f1']:.3f}",
                f"{row['f1_low']:.3f}–{row['f1_high']:.3f}",
                f"{row['exact_match']:.3f}",
                "–" if row["nf1"] is None else f"{row['nf1']:.0f}",
                f"{row['computed']:.1%}",
                f"{row['surveyed']:.1%}",
                *(f"{by_kind[kind]:.3f}" for kind in self.kinds),
            )
            print(f"{row['cell']:<{width}}" + "".join(f"{text:>13}" for text in shown))
        best = self.best_other
        pairs = ((FUSIONRAG, best), (PRIMED, REUSE), (PRECEDING, FUSIONRAG), (PRECEDING_0, PRIMED))
        for one, other in pairs:
            gain = self._gain(one, other)
            print(
                f"{one.name} − {other.name}, paired: {gain.mean:+.3f} "
                f"({gain.low:+.3f} … {gain.high:+.3f})"
            )
        if best != BEST_OTHER:
            print(f"the best other is {best.name}: write that into BEST_OTHER of this benchmark")
        loss = self._gain(FULL, REUSE)
        if loss.mean < LOSS_MIN:
            print(
                f"NOT MEASURED: full reuse loses only {loss.mean:.3f} F1 ({loss.low:.3f} … "
                f"{loss.high:.3f}) to full attention here, less than {LOSS_MIN:.2f}: these "
                "questions with this model don't tell policies apart"
            )

    def _mean(self, cell: Cell) -> float:
        return estimate_mean(self.f1(cell), self.seed).mean

    def _nf1(self, cell: Cell) -> float:
        """Return a cell's normalised F1 in percent; 0 where full reuse loses nothing."""
        share = normalized_f1(self.f1(cell), self.f1(FULL), self.f1(REUSE), self.seed).share
        return 100 * share.mean if share else 0.0

    def _gain(self, cell: Cell, other: Cell) -> Estimate:
        """Return a cell's F1 minus another's, paired by question."""
        return estimate_difference(self.f1(cell), self.f1(other), self.seed)

    def _drop(self, kind: str) -> float:
        full, reuse = self.f1(FULL, kind), self.f1(REUSE, kind)
        return estimate_difference(full, reuse, self.seed).mean

    def _row(self, cell: Cell) -> dict[str, object]:
        scores = self.scores[cell]
        mean = estimate_mean(self.f1(cell), self.seed)
        found = normalized_f1(self.f1(cell), self.f1(FULL), self.f1(REUSE), self.seed)
        share = found.share
        tokens = sum(score.prompt_tokens for score in scores)
        return {
            "dataset": self.name,
            "cell": cell.name,
            "policy": cell.policy.value,
            "ratio": cell.ratio,
            "top_n": cell.top_n,
            "question": cell.question.value,
            "nearest_only": cell.nearest_only,
            "f1": mean.mean,
            "f1_low": mean.low,
            "f1_high": mean.high,
            "exact_match": sum(score.exact_match for score in scores) / len(scores),
            "nf1": 100 * share.mean if share else None,
            "nf1_low": 100 * share.low if share else None,
            "nf1_high": 100 * share.high if share else None,
            "nf1_is_stable": found.is_stable,
            "computed": sum(score.tokens_computed for score in scores) / tokens,
            "surveyed": sum(score.tokens_surveyed for score in scores) / tokens,
            "f1_by_kind": {
                kind: estimate_mean(self.f1(cell, kind), self.seed).mean for kind in self.kinds
            },
        }


def _table(
    asked: Dataset,
    whole: Dataset,
    cells: Sequence[Cell],
    prompts: Prompts,
    scores: ScoreFile,
    seed: int,
) -> Table:
    """Answer what has no score yet, with each choice of neighbours in turn."""
    groups: dict[tuple[int, bool], dict[Cell, list[EvalQuestion]]] = {}
    for cell in cells:
        if left := [q for q in asked.questions if q.id not in scores.of(cell.name)]:
            groups.setdefault((cell.top_n or TOP_N, cell.nearest_only), {})[cell] = left
    if groups:
        near = Neighbourhood(asked, whole, seed)
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(ReusingModel(prompts, Path(folder))) as model,
        ):
            for (top_n, nearest_only), left_of in groups.items():
                neighbours = {
                    p: near.of(p, top_n, nearest_only=nearest_only) for p in shown_passages(asked)
                }
                primed_with = next(iter(left_of)).primed_with
                _answer(model, left_of, neighbours, primed_with, scores)
    found = {
        cell: tuple(scores.of(cell.name)[question.id] for question in asked.questions)
        for cell in cells
    }
    return Table(asked.name, asked.questions, found, seed)


def _answer(
    model: ReusingModel,
    left: Mapping[Cell, Sequence[EvalQuestion]],
    neighbours: Mapping[Passage, Sequence[Passage]],
    primed_with: PrimedWith,
    scores: ScoreFile,
) -> None:
    """Answer questions in cells. Mutates: `scores` gets one for each; the model's primed KV."""
    with ProgressLines() as progress:
        for done, total in model.prime(neighbours, primed_with):
            progress.update("priming", done, total)
        for cell, questions in left.items():
            for done, reply in enumerate(model.replies(questions, cell.reuse), start=1):
                scores.add(_score(cell, reply))
                progress.update(cell.name, done, len(questions))


def _score(cell: Cell, reply: Reply) -> Score:
    question = reply.question
    return Score(
        cell=cell.name,
        question=question.id,
        kind=question.kind,
        f1=token_f1(reply.text, question.answers),
        exact_match=exact_match(reply.text, question.answers),
        answer=reply.text,
        prompt_tokens=reply.prompt_tokens,
        tokens_computed=reply.tokens_computed,
        tokens_surveyed=reply.tokens_surveyed,
    )


def _score_path(asked: Dataset, prompts: Prompts) -> Path:
    root = Path(__file__).resolve().parents[1]
    support = root / "benchmarks/support"
    code = [root / "heddle/core/kv_reuse.py", support / "reusing_model.py"]
    code.append(support / "neighbours.py")
    for folder in ("heddle/engines/llm", "heddle/kv"):
        code += sorted((root / folder).rglob("*.py"))
    ingredients = {
        "code": [file_digest(path) for path in code],
        "model": model_gate.fingerprint(prompts.directory, "auto"),
        "questions": [repr(question) for question in asked.questions],
    }
    path = made_from("fusion-quality", ingredients, by_model=True) / "scores.jsonl"
    print(f"scores are kept in {path}")
    return path
