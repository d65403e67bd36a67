"""`heddle eval DATASET`: ask questions with known answers, and say how good the answers are."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from heddle.app.models.remote_models import RemoteModel, open_remote_judge
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import add_json, add_topk
from heddle.cli.bench import machine_record, prepared_corpus, version_record
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, server_config
from heddle.cli.eval_manuals import first_answer_cpu_s, indexed_folder, manuals_headline
from heddle.cli.progress import ProgressLines
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import WORKFLOW_HELP, load_workflow
from heddle.core.cache import write_json
from heddle.core.errors import InputError
from heddle.engines.remote.dialect import Abilities
from heddle.evals.catalogue import NAMED, load_dataset
from heddle.evals.comparison import (
    Difference,
    EarlierRun,
    differences,
    normalized_f1_of,
    read_run,
    require_comparable,
)
from heddle.evals.context import Case, Context, cases_for, given_passages, passage_cases, sample
from heddle.evals.dataset import Dataset
from heddle.evals.declining import quoting_headline
from heddle.evals.file_formats import DOCUMENT_FORMATS, ROW_FORMATS, TABLE_FORMATS
from heddle.evals.judging.exhibit import Exhibit
from heddle.evals.judging.judge import judge_answers
from heddle.evals.judging.judgement import JudgedCounts, Judgement
from heddle.evals.metrics.bootstrap import Estimate
from heddle.evals.metrics.normalized_f1 import NormalizedF1
from heddle.evals.quoting import given_quotes, hidden_answers
from heddle.evals.record import (
    difference_record,
    headline,
    judged_headline,
    kind_record,
    normalized_f1_record,
    row_record,
)
from heddle.evals.run import Outcome, run_cases
from heddle.evals.scores import (
    JUDGED_FAITHFULNESS,
    KindScores,
    Scored,
    score,
    scores_by_kind,
)
from heddle.workflow.workflow import Workflow

LIST = "list"
PREPARED = Path("prepared")  # what `--index` without a folder stands for
ERRORS_SHOWN = 3
PIPED_CHARS = 100  # a pipe has no width; lines are not to be cut to a terminal's 80
_NUMBER = re.compile(r"\d+")
COLUMNS = {
    "exact_match": "EM",
    "f1": "F1",
    "rouge_l": "R-L",
    "word_overlap": "overlap",
    JUDGED_FAITHFULNESS: "judged",
    "answer_in_passages": "shown",
    "recall@1": "R@1",
    "recall@5": "R@5",
}
NOTES = (
    "Means over questions with 95 % bootstrap intervals; one without an answer counts as wrong.\n"
    "R-L: ROUGE-L. overlap: share of the answer's words that stand in the passages. shown: an\n"
    "accepted answer stands in them. judged: share of the answer's statements that a judge finds\n"
    "supported by them. R@k: recall of gold passages."
)


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of comparing a run with earlier ones."""

    differences: tuple[Difference, ...] = ()
    normalized: NormalizedF1 | None = None


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add = parser.add_argument
    add(
        "dataset",
        metavar="DATASET",
        help=f"one of {', '.join(NAMED)}, or a file; `list` shows them",
    )
    add(
        "--index",
        dest="corpus",
        type=Path,
        nargs="?",
        const=PREPARED,
        metavar="DIR",
        help="corpus to retrieve from, made by `heddle index`; without DIR: the one that `heddle "
        "bench prepare` has built",
    )
    add(
        "--unanswerable",
        action="store_true",
        help="ask each question again without the passages that answer it; implies --index",
    )
    add("--workflow", metavar="NAME", help=f"workflow for --index: {WORKFLOW_HELP}")
    add_topk(parser)
    add(
        "--oracle-passage",
        action="store_true",
        help="answer from the gold passages, without retrieval",
    )
    add_config(parser)
    add(
        "--questions", type=int, metavar="N", help="size of a random sample; default: all questions"
    )
    add("--seed", type=int, default=0, metavar="N", help="random seed; default: 0")
    add("--against", type=Path, metavar="FILE", help="earlier --json result to compare with")
    add("--reuse", type=Path, metavar="FILE", help="--json result of full reuse, for normalised F1")
    add(
        "--judge",
        metavar="URL",
        help="model of another server, as for --model, which says of each statement of an answer "
        "whether the passages support it",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Evaluate, print the table by kind, write the result. Exit code 1 if nothing was answered."""
    if options.dataset == LIST:
        _print_list()
        return 0
    dataset = load_dataset(options.dataset)
    for reason in dataset.skipped:
        print(f"left out: {reason}", file=sys.stderr)
    context = _context(options, dataset)
    config = server_config(options, index=_corpus(options, dataset))
    workflow = _workflow(options, context, config)
    earlier = [read_run(path) for path in (options.against, options.reuse) if path]
    questions = sample(dataset, options.questions, options.seed)
    for one in earlier:
        require_comparable(one, dataset.name, questions)
    cases = cases_for(dataset, questions, context)
    judge = None if options.judge is None else _judge(options.judge)
    outcomes, hidden = _run_all(config, workflow, cases, hides=options.unanswerable)
    judgements = (None,) * len(outcomes) if judge is None else _judgements(judge, outcomes)
    scored = [score(*pair) for pair in zip(outcomes, judgements, strict=True)]
    quoted = quoting_headline(scored, hidden)
    if dataset.folder is not None:
        quoted = manuals_headline(outcomes, options.seed)
        quoted["first_answer_cpu_s"] = first_answer_cpu_s(config, questions[0].question)
    kinds = scores_by_kind(scored, options.seed)
    compared = _compared(scored, earlier, options.seed)
    _print_scores(dataset, context, kinds)
    for name, value in quoted.items():
        print(f"{name}: {value:.3f}")
    judged = JudgedCounts.of([one for one in judgements if one is not None])
    if judge is not None:
        mean = kinds[-1].means[JUDGED_FAITHFULNESS]
        _print_judged(judged, mean, judgements)
        quoted |= judged_headline(judged, mean)
    _print_compared(compared)
    _print_doubts(scored, kinds)
    if options.json is not None:
        write_json(
            options.json,
            _record(options, config, workflow, dataset, context, scored, kinds, compared, quoted),
        )
    is_judged = judged.answers > 0 or not judged.unjudged
    return 0 if any(one.outcome.answer for one in scored) and is_judged else 1


def _print_list() -> None:
    for name, named in NAMED.items():
        print(f"{name:<16} {named.about}")
    print("\nor a file, plain or gzipped, of one of these formats:")
    for one in (*ROW_FORMATS, *DOCUMENT_FORMATS, *TABLE_FORMATS):
        print(f"{one.title:<28} {one.files}")


def _judge(name: str) -> RemoteModel[Abilities]:
    """Ask the server of a judge for its model, before a long run, and say where texts will go."""
    judge = open_remote_judge(name)
    print(judge.destination(), file=sys.stderr)
    return judge


def _judgements(
    judge: RemoteModel[Abilities], outcomes: Sequence[Outcome]
) -> tuple[Judgement | None, ...]:
    """Return what the judge makes of each outcome; None = there is nothing to judge."""
    exhibits = [Exhibit.of(outcome) for outcome in outcomes]
    laid = [one for one in exhibits if one is not None]
    with ProgressLines() as progress:
        done = 0

        def on_judged() -> None:
            nonlocal done
            done += 1
            progress.update("judging", done, len(laid))

        found = iter(judge_answers(judge, laid, on_judged))
    return tuple(None if one is None else next(found) for one in exhibits)


def _context(options: argparse.Namespace, dataset: Dataset) -> Context:
    """Say where passages come from, by the options.

    Raises:
        InputError: the options contradict each other.
    """
    if options.reuse and not options.against:
        raise InputError("--reuse needs --against with the result of full attention")
    if options.corpus is not None or options.unanswerable or dataset.folder is not None:
        if options.oracle_passage:
            raise InputError("--oracle-passage retrieves nothing: leave --index out")
        return Context.RETRIEVED
    if options.workflow is not None:
        raise InputError(f"workflow {options.workflow!r} retrieves: name an index with --index DIR")
    if options.topk is not None:
        raise InputError("--topk is for a search: name an index with --index DIR")
    return Context.ORACLE if options.oracle_passage else Context.OWN


def _corpus(options: argparse.Namespace, dataset: Dataset) -> Path | None:
    """Return the corpus folder that the options name, the data set's own, or the prepared one."""
    folder: Path | None = options.corpus
    if dataset.folder is not None and folder is None:
        return indexed_folder(dataset.folder)
    if folder != PREPARED and not (folder is None and options.unanswerable):
        return folder
    return prepared_corpus(quick=options.dataset.startswith("mini"))


def _workflow(options: argparse.Namespace, context: Context, config: ServerConfig) -> Workflow:
    if context is Context.RETRIEVED:
        return load_workflow(options.workflow or config.default_workflow, options.topk)
    return (given_quotes() if config.llm is None else given_passages()).compile()


def _run_all(
    config: ServerConfig, workflow: Workflow, cases: Sequence[Case], *, hides: bool
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """Run the cases; with `hides`, each again without the passages that answer it."""
    with start_server(config) as server, ProgressLines() as progress:
        if config.kv_reuse.is_approximate:
            print("computing each passage's KV on its own")
            run_cases(server, workflow, passage_cases(cases), on_outcome=lambda _: None)
        outcomes = _run_shown(server, workflow, cases, progress, "answering")
        if not hides:
            return outcomes, ()
        again = [Case(case.question, None, names_answers=True) for case in cases]
        hidden = hidden_answers().compile()
        return outcomes, _run_shown(server, hidden, again, progress, "declining")


def _run_shown(
    server: Server, workflow: Workflow, cases: Sequence[Case], progress: ProgressLines, doing: str
) -> tuple[Outcome, ...]:
    done = 0

    def on_outcome(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        progress.update(doing, done, len(cases))

    return run_cases(server, workflow, cases, on_outcome=on_outcome)


def _compared(scored: Sequence[Scored], earlier: Sequence[EarlierRun], seed: int) -> Compared:
    if not earlier:
        return Compared()
    against, *reuse = earlier
    normalized = normalized_f1_of(scored, against, reuse[0], seed) if reuse else None
    return Compared(differences(scored, against, seed), normalized)


def _print_scores(dataset: Dataset, context: Context, kinds: Sequence[KindScores]) -> None:
    shown = {
        name: title for name, title in COLUMNS.items() if any(one.means[name] for one in kinds)
    }
    counts = ("n", "failed") if kinds[-1].failed else ("n",)
    table = _table(f"{dataset.name}, {context.value} passages [%]", *counts, *shown.values())
    for one in kinds[:-1]:
        table.add_row(*_cells(one, counts, shown))
    table.add_section()
    table.add_row(*_cells(kinds[-1], counts, shown))
    _print_table(table)
    print(NOTES)


def _table(title: str, *columns: str) -> Table:
    """Return a table whose first column holds names, and the others numbers."""
    table = Table(title=title, box=None, padding=(0, 0, 0, 1))
    table.add_column(overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _print_table(table: Table) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_CHARS)
    console.print(table)


def _cells(scores: KindScores, counts: Sequence[str], shown: Mapping[str, str]) -> list[str]:
    numbers = [str(scores.questions), str(scores.failed)][: len(counts)]
    return [scores.kind, *numbers, *(_cell(scores.means[name]) for name in shown)]


def _cell(mean: Estimate | None) -> str:
    if mean is None:
        return "–"
    return f"{100 * mean.mean:.1f}\n{100 * mean.low:.0f}–{100 * mean.high:.0f}"


def _print_compared(compared: Compared) -> None:
    if compared.differences:
        title = "this run minus the earlier one, paired by question [%]"
        table = _table(title, "n", "here", "there", "difference", "95 % interval", "clear")
        for one in compared.differences:
            low, mean, high = one.difference.low, one.difference.mean, one.difference.high
            table.add_row(
                one.metric,
                str(one.difference.count),
                f"{100 * one.here.mean:.1f}",
                f"{100 * one.there.mean:.1f}",
                f"{100 * mean:+.1f}",
                f"{100 * low:+.1f} … {100 * high:+.1f}",
                "yes" if one.is_clear else "no",
            )
        _print_table(table)
    if compared.normalized is not None:
        print(_normalized_line(compared.normalized))


def _normalized_line(found: NormalizedF1) -> str:
    raw = (
        f"F1 {found.method.mean:.3f} between full reuse {found.full_reuse.mean:.3f} and full "
        f"attention {found.full_attention.mean:.3f}"
    )
    if found.share is None:
        return f"normalised F1: undefined, full reuse loses nothing here ({raw})"
    share = f"{found.share.mean:.0%}, 95 % interval {found.share.low:.0%} … {found.share.high:.0%}"
    doubt = "" if found.is_stable else "; unstable: full reuse loses too little to divide by"
    return f"normalised F1: {share} ({raw}{doubt})"


def _print_doubts(scored: Sequence[Scored], kinds: Sequence[KindScores]) -> None:
    errors = [one.outcome.error for one in scored if one.outcome.answer is None]
    counts = Counter(_NUMBER.sub("…", error) for error in errors)
    for pattern, count in counts.most_common(ERRORS_SHOWN):
        example = next(error for error in errors if _NUMBER.sub("…", error) == pattern)
        print(f"{count} without an answer, such as: {example}", file=sys.stderr)
    recall = kinds[-1].means["recall"]
    if recall is not None and recall.high == 0:
        print("no gold passage was retrieved: is the index made of this data?", file=sys.stderr)


def _print_judged(
    counts: JudgedCounts, mean: Estimate | None, judgements: Sequence[Judgement | None]
) -> None:
    if mean is not None:
        print(
            f"judged faithfulness: {mean.mean:.3f}, 95 % interval {mean.low:.3f} … {mean.high:.3f} "
            f"({counts.supported} of {counts.statements} statements supported, "
            f"in {counts.answers} answers)"
        )
    errors = [one.words for one in judgements if one is not None and one.unjudged]
    if errors:
        print(
            f"not judged: {counts.unjudged} (malformed replies: {counts.malformed}, no reply: "
            f"{counts.failed}), such as: {errors[0]}",
            file=sys.stderr,
        )


def _record(
    options: argparse.Namespace,
    config: ServerConfig,
    workflow: Workflow,
    dataset: Dataset,
    context: Context,
    scored: Sequence[Scored],
    kinds: Sequence[KindScores],
    compared: Compared,
    quoted: Mapping[str, float],
) -> dict[str, Any]:
    normalized = compared.normalized
    return {
        "name": f"eval {dataset.name}",
        "machine": machine_record(),
        "versions": version_record(),
        "seed": options.seed,
        "settings": {
            "dataset": dataset.name,
            "questions": len(scored),
            "context": context.value,
            "workflow": workflow.name,
            "topk": options.topk,
            "method": config.kv_reuse.policy.value,
            "ratio": config.kv_reuse.ratio,
            "primed": config.kv_reuse.primed,
            "primed_with": config.kv_reuse.primed_with.value,
            "model": str(config.generator),
            "judge": options.judge,
        },
        "rows": [row_record(one) for one in scored],
        "by_kind": [kind_record(one) for one in kinds],
        "differences": [difference_record(one) for one in compared.differences],
        "normalized_f1": normalized_f1_record(normalized) if normalized else None,
        "headline": {**headline(dataset, kinds), **quoted},
    }
