"""`heddle explain WORKFLOW [--analyze DIR]`: regions, what each pass does, where time goes."""

import argparse
import json
from pathlib import Path
from typing import Final

from heddle.app.explain.analysis import Analysis, analyze
from heddle.app.explain.explanation import Explainer, Explanation
from heddle.app.explain.predicted import StageLengths
from heddle.app.models.remote_name import is_remote
from heddle.app.remote.refusals import LEFT_OUT
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import (
    add_connectors,
    add_documents,
    add_inputs,
    add_topk,
    document_options,
    result_file,
)
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, corpus_place, server_config
from heddle.cli.output.explained.page import explanation_page
from heddle.cli.output.explained.text import explanation_lines
from heddle.cli.progress import status
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import (
    WORKFLOW_HELP,
    check_connectors,
    drawn_workflow,
    load_connectors,
)
from heddle.core.cache import cache_directory, read_json, write_json
from heddle.core.errors import InputError
from heddle.engines.vector.files.manifest import graph_path, read_manifest
from heddle.engines.vector.ivf.early_stop.no_looks import why_never_of
from heddle.exporters.perfetto import perfetto_trace
from heddle.graph.render import render_mermaid, render_text
from heddle.runtime.clock import SystemClock
from heddle.workflow.workflow import Workflow

RUNS: Final = 3
RUNS_MAX: Final = 100
DEFAULT_QUESTION: Final = "What is this about?"


def add_arguments(parser: CommandParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("workflow", metavar="WORKFLOW", help=WORKFLOW_HELP)
    parser.add_argument(
        "--mermaid", action="store_true", help="print the graphs as Mermaid diagrams"
    )
    parser.add_argument(
        "--analyze",
        type=Path,
        metavar="DIR",
        help="run the workflow on this corpus and add measured times",
    )
    parser.add_argument(
        "--runs", type=int, metavar="N", help=f"requests of --analyze; default: {RUNS}"
    )
    parser.add_argument(
        "--question",
        default=DEFAULT_QUESTION,
        metavar="TEXT",
        help=f"question for --analyze; default: {DEFAULT_QUESTION}",
    )
    parser.add_argument(
        "--html", type=result_file, metavar="FILE", help="write all of it as one page, too"
    )
    parser.add_argument(
        "--perfetto",
        type=result_file,
        metavar="FILE",
        help="write the timeline of --analyze for ui.perfetto.dev",
    )
    add_inputs(parser)
    add_topk(parser)
    add_documents(parser)
    add_connectors(parser)
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what happens to a workflow, and write the files that are asked for."""
    _check(options)
    connectors = load_connectors(options.connectors)
    workflow = drawn_workflow(options.workflow, options.topk, connectors)
    if options.analyze is not None:
        check_connectors(options.workflow, connectors)
    config = server_config(options, index=options.analyze)
    explainer = Explainer.of(config, SystemClock(), StageLengths(_known_lengths()))
    analysis = None if options.analyze is None else _analyze(workflow, config, explainer, options)
    explanation = explainer.explain(workflow, analysis)
    draw = render_mermaid if options.mermaid else render_text
    print("\n".join(explanation_lines(explanation, draw)))
    for line in _closing_lines(config, explainer, explanation):
        print(f"\n{line}")
    if options.html is not None:
        options.html.write_text(explanation_page(explanation), encoding="utf-8")
        print(f"\nwritten: {options.html}")
    if options.perfetto is not None and explanation.measured is not None:
        trace = perfetto_trace(explanation.measured.runs, workflow.name)
        options.perfetto.write_text(json.dumps(trace), encoding="utf-8")
        print(f"\nwritten: {options.perfetto}; open it in ui.perfetto.dev")
    return 0


def _check(options: argparse.Namespace) -> None:
    for flag, given in (("--perfetto", options.perfetto), ("--runs", options.runs)):
        if given is not None and options.analyze is None:
            raise InputError(f"{flag} needs a corpus to run the workflow on: add --analyze DIR")
    if options.runs is not None and not 1 <= options.runs <= RUNS_MAX:
        raise InputError(f"--runs must be from 1 to {RUNS_MAX}, got {options.runs}")


def _known_lengths() -> dict[str, float]:
    """Return what each kind of stage took in the last analysis; none where there was none [s]."""
    known = read_json(cache_directory() / "profile.json")
    if not isinstance(known, dict):
        return {}
    return {kind: length_s for kind, length_s in known.items() if isinstance(length_s, float)}


def _analyze(
    workflow: Workflow, config: ServerConfig, explainer: Explainer, options: argparse.Namespace
) -> Analysis:
    inputs = {**dict(options.input), "query": options.question}
    runs = RUNS if options.runs is None else options.runs
    documents = document_options(options).get("documents")
    with start_server(config) as server, status("running the workflow"):
        return analyze(server, workflow, inputs, runs, explainer.optimized, documents)


def _closing_lines(
    config: ServerConfig, explainer: Explainer, explanation: Explanation
) -> list[str]:
    """Return where predictions come from; remember what was measured for those of later calls."""
    lines = []
    if is_remote(config.generator):
        lines.append(f"another server runs the model: Heddle leaves out {LEFT_OUT}")
    if explanation.measured is not None:
        lines += _recall_lines(config)
        lengths = StageLengths.of(explanation.measured.table.rows)
        write_json(cache_directory() / "profile.json", dict(lengths.by_kind))
        lines.append(
            "longest ways and gains: by the times of these runs; the column predicted: by the "
            "engines' own cost models, from what each step had to do"
        )
    elif explainer.known.by_kind:
        lines.append("predicted from the times of the last run with --analyze")
    else:
        lines.append("no predicted times yet: run once with --analyze DIR")
    return lines


def _recall_lines(config: ServerConfig) -> list[str]:
    """Say where searches of this corpus can't stop early, though a recall is promised."""
    corpus = corpus_place(config).work
    if config.recall is None or graph_path(corpus).exists():
        return []
    try:
        why = why_never_of(read_manifest(corpus), config.nprobe)
    except (FileNotFoundError, InputError):
        return []  # there is no index yet: the server has made one for its run alone
    return [f"recall {config.recall:g}: {why}"] if why else []
