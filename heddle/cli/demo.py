"""`heddle demo`: forty questions at once to an invented archive, and quotes from real text."""

import argparse
import json
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from heddle.app.index_paths import index_paths
from heddle.app.models.model_source import READER, model_directory
from heddle.app.models.remote_name import is_remote
from heddle.app.server import Server
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import add_json
from heddle.cli.bench import machine_record, version_record
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import MODEL_FIELDS, add_config, server_config
from heddle.cli.progress import ProgressLines
from heddle.core.cache import write_json
from heddle.core.errors import HeddleError, InputError
from heddle.demo.corpus import (
    STREAM_QUESTION_COUNT,
    DemoDocument,
    DemoQuestion,
    demo_documents,
    demo_questions,
)
from heddle.demo.language_reference import (
    LANGUAGE_QUESTIONS,
    LANGUAGE_UNANSWERABLE,
    language_reference_documents,
)
from heddle.demo.scoring import gold_in_context, is_right
from heddle.exporters.stage_times import stage_times
from heddle.runtime.events import Answer, NodeStarted, RequestFailed, TokenDelta
from heddle.runtime.handle import Handle
from heddle.runtime.step_trace import Overlap

CHUNK_TOKENS = 160  # about 120 words: what the results of the demo were measured with
RATE_PER_S = 0.8
SEED = 20251


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question."""

    question: DemoQuestion
    answer: Answer | None
    error: str
    has_gold: bool
    is_right: bool

    @property
    def latency_s(self) -> float:
        """Seconds from arrival to the answer; a failed request has none."""
        return self.answer.receipt.latency_s if self.answer else float("inf")


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    add_config(parser, only=MODEL_FIELDS)
    parser.add_argument(
        "--questions",
        type=int,
        default=STREAM_QUESTION_COUNT,
        metavar="N",
        help=f"questions to ask; default: {STREAM_QUESTION_COUNT}",
    )
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE_PER_S,
        metavar="X",
        help=f"questions per second; default: {RATE_PER_S}",
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="N", help="random seed of the arrivals"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Index, answer, and say how it went. Exit code 1 if a question got no answer."""
    if options.rate <= 0 or options.questions < 1:
        raise InputError("--rate and --questions must be positive")
    config = server_config(options, only=MODEL_FIELDS, defaults={"generator": READER})
    if config.llm is None:
        raise InputError(
            "the demo's workflows need a model that writes: leave --model out, or name another"
        )
    if not is_remote(config.llm):
        model_directory(config.llm)  # a wrong name is refused before anything is indexed
    started_s = time.monotonic()
    questions = demo_questions()[: options.questions]
    with tempfile.TemporaryDirectory(prefix="heddle-demo-") as folder:
        town, language = Path(folder) / "town", Path(folder) / "language"
        with ProgressLines() as progress:
            _index("the town's archive", demo_documents(), town, progress)
            with Server.from_config(replace(config, index=town)) as server:
                outcomes = _serve(server, questions, options, progress)
                overlap, busy = server.trace.overlap(), server.trace.busy_s()
            _index(
                "Python's language reference", language_reference_documents(), language, progress
            )
        _print_summary(outcomes, overlap, busy)
        quoted, is_declined = _show_language(language)
    print(f"\nthe demo took {time.monotonic() - started_s:.0f} s")
    if options.json is not None:
        record = _record(options, config, outcomes, overlap, busy)
        record["headline"] |= {"language_quoted": quoted, "language_declined": int(is_declined)}
        write_json(options.json, record)
    return 0 if all(outcome.answer for outcome in outcomes) else 1


def _index(
    title: str, documents: Iterable[DemoDocument], into: Path, progress: ProgressLines
) -> None:
    with tempfile.TemporaryDirectory(prefix="heddle-demo-docs-") as folder:
        path = Path(folder) / "documents.jsonl"
        rows = ({"id": d.id, "title": d.title, "text": d.text} for d in documents)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        started_s = time.monotonic()
        report = index_paths(
            [path],
            into,
            chunk_tokens=CHUNK_TOKENS,
            on_documents=lambda state: None,
            on_vectors=lambda s: progress.update(
                f"indexing {title}", s.chunks_done, s.chunks_total
            ),
        )
        seconds = time.monotonic() - started_s
        progress.say(f"indexed {title}: {report.vectors} passages in {seconds:.1f} s")


def _serve(
    server: Server,
    questions: Sequence[DemoQuestion],
    options: argparse.Namespace,
    progress: ProgressLines,
) -> list[Outcome]:
    """Submit the questions as a Poisson stream and collect every outcome, in order."""
    arrivals = random.Random(options.seed)
    documents = {document.id: document for document in demo_documents()}
    outcomes: dict[int, Outcome] = {}
    lock = threading.Lock()

    def follow(index: int, question: DemoQuestion, handle: Handle) -> None:
        def show(text: str) -> None:
            progress.stream(index, f"{question.question} {text}")

        outcome = _outcome(question, handle, documents, show)
        progress.stream(index, None)
        with lock:
            outcomes[index] = outcome
            progress.update("answering", len(outcomes), len(questions))
            progress.say(_answer_lines(len(outcomes), len(questions), outcome))

    followers = []
    pause = threading.Event()
    for index, question in enumerate(questions):
        pause.wait(arrivals.expovariate(options.rate))
        handle = server.submit(question.workflow, question.question)
        follower = threading.Thread(target=follow, args=(index, question, handle), daemon=True)
        follower.start()
        followers.append(follower)
    for follower in followers:
        follower.join()
    return [outcomes[index] for index in sorted(outcomes)]


def _outcome(
    question: DemoQuestion,
    handle: Handle,
    documents: dict[str, DemoDocument],
    show: Callable[[str], None],
) -> Outcome:
    error: HeddleError | None = None
    answer: Answer | None = None
    written = ""
    for event in handle:
        if isinstance(event, NodeStarted):
            written = f"[{event.node}] "
        elif isinstance(event, TokenDelta):
            written += event.text
            show(written)
        elif isinstance(event, Answer):
            answer = event
        elif isinstance(event, RequestFailed):
            error = event.error
    if answer is None:
        return Outcome(question, None, str(error), has_gold=False, is_right=False)
    return Outcome(
        question,
        answer,
        "",
        has_gold=gold_in_context(question, answer.passages, documents),
        is_right=is_right(question, answer.text),
    )


def _answer_lines(done: int, total: int, outcome: Outcome) -> str:
    head = f"[{done}/{total}] {outcome.question.workflow}: {outcome.question.question}"
    if outcome.answer is None:
        return f"{head}\n      failed: {outcome.error}"
    titles = list(dict.fromkeys(p.title for p in outcome.answer.passages))
    mark = "right" if outcome.is_right else f"expected {outcome.question.answers[0]}"
    text = " ".join(outcome.answer.text.split()) or "(nothing)"
    return (
        f"{head}\n      {text}  ({mark}; {outcome.latency_s:.1f} s; from {'; '.join(titles[:3])})"
    )


def _print_summary(outcomes: Sequence[Outcome], overlap: Overlap, busy_s: dict[str, float]) -> None:
    table = Table(title=f"{len(outcomes)} questions, one scheduler")
    for column in ("workflow", "questions", "gold in context", "right", "p50 s", "p95 s"):
        table.add_column(column, justify="left" if column == "workflow" else "right")
    for name in sorted({outcome.question.workflow for outcome in outcomes}):
        group = [outcome for outcome in outcomes if outcome.question.workflow == name]
        table.add_row(name, *_cells(group))
    table.add_section()
    table.add_row("all", *_cells(outcomes))
    console = Console()
    console.print(table)
    stages = Table(title="seconds a request, on average")
    for column in ("stage", "waited", "ran"):
        stages.add_column(column, justify="left" if column == "stage" else "right")
    for stage, waited_s, ran_s in _stages(outcomes):
        stages.add_row(stage, f"{waited_s:.3f}", f"{ran_s:.3f}")
    console.print(stages)
    lanes = ", ".join(f"{lane} {seconds:.1f} s" for lane, seconds in sorted(busy_s.items()))
    share = overlap.overlapped_s / overlap.busy_s if overlap.busy_s else 0.0
    print(f"engines were busy: {lanes}")
    print(
        f"the scheduler overlapped {overlap.overlapped_s:.1f} s of {overlap.busy_s:.1f} s "
        f"of work ({share:.0%}): two engines or more at once"
    )


def _cells(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    latencies = sorted(outcome.latency_s for outcome in outcomes)
    return (
        str(len(outcomes)),
        str(sum(outcome.has_gold for outcome in outcomes)),
        str(sum(outcome.is_right for outcome in outcomes)),
        f"{_quantile(latencies, 0.5):.2f}",
        f"{_quantile(latencies, 0.95):.2f}",
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values don't exceed."""
    rank = max(1, -(-int(share * 1000) * len(ordered) // 1000))
    return ordered[min(rank, len(ordered)) - 1] if ordered else float("nan")


def _stages(outcomes: Sequence[Outcome]) -> list[tuple[str, float, float]]:
    """Return each stage's seconds of waiting and of work, over all requests, for one of them."""
    answered = [outcome.answer for outcome in outcomes if outcome.answer]
    waited_s: dict[str, float] = defaultdict(float)
    ran_s: dict[str, float] = defaultdict(float)
    for answer in answered:
        for took in stage_times(answer.receipt.spans):
            waited_s[took.span.kind.value] += took.waited_s
            ran_s[took.span.kind.value] += took.ran_s
    return [(kind, waited_s[kind] / len(answered), ran_s[kind] / len(answered)) for kind in ran_s]


def _show_language(corpus: Path) -> tuple[int, bool]:
    """Quote answers from real text, Python's language reference.

    Returns: how many of the questions got a quote, and whether the last one was declined, which
        the language reference doesn't answer.
    """
    print("\nPython's language reference, quoted by the extractor:")
    asked = (*LANGUAGE_QUESTIONS, LANGUAGE_UNANSWERABLE)
    with Server(index=corpus) as server:
        answers = server.app(server.config.default_workflow).batch(asked)
    for question, answer in zip(asked, answers, strict=True):
        print(f"\n{question}")
        best = answer.quotes[0] if answer.quotes else None
        if best is None:
            print(f"  {answer.text}")
            continue
        print(f'  "{" ".join(best.sentence.split())}"')
        print(f"  {best.passage.title}; the words that answer: {' '.join(best.text.split())}")
    return sum(bool(answer.quotes) for answer in answers[:-1]), not answers[-1].quotes


def _record(
    options: argparse.Namespace,
    config: ServerConfig,
    outcomes: Sequence[Outcome],
    overlap: Overlap,
    busy_s: dict[str, float],
) -> dict[str, Any]:
    latencies = sorted(outcome.latency_s for outcome in outcomes)
    return {
        "name": "demo",
        "machine": machine_record(),
        "versions": version_record(),
        "seed": options.seed,
        "settings": {"model": str(config.generator), "rate_per_s": options.rate},
        "rows": [
            {
                "id": outcome.question.id,
                "kind": outcome.question.kind.value,
                "workflow": outcome.question.workflow,
                "answer": outcome.answer.text if outcome.answer else None,
                "error": outcome.error,
                "gold_in_context": outcome.has_gold,
                "right": outcome.is_right,
                "latency_s": outcome.latency_s if outcome.answer else None,
            }
            for outcome in outcomes
        ],
        "headline": {
            "gold_in_context": sum(o.has_gold for o in outcomes) / max(1, len(outcomes)),
            "right": sum(outcome.is_right for outcome in outcomes),
            "questions": len(outcomes),
            "failed": sum(outcome.answer is None for outcome in outcomes),
            "p50_s": _quantile(latencies, 0.5),
            "p95_s": _quantile(latencies, 0.95),
            "overlapped_s": overlap.overlapped_s,
            "busy_s": sum(busy_s.values()),
        },
    }
