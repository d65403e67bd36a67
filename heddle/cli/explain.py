"""`heddle explain WORKFLOW [--analyze DIR]`: the graph before and after each pass."""

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heddle.app.models.remote_name import is_remote
from heddle.app.remote.refusals import LEFT_OUT
from heddle.app.server_config import ServerConfig
from heddle.cli.arguments import add_connectors, add_documents, add_topk, document_options
from heddle.cli.command_parser import CommandParser
from heddle.cli.config_options import add_config, choices, server_config
from heddle.cli.output.primitive_times import primitive_times
from heddle.cli.progress import status
from heddle.cli.start_server import start_server
from heddle.cli.workflow_source import (
    WORKFLOW_HELP,
    check_connectors,
    drawn_workflow,
    load_connectors,
)
from heddle.core.cache import cache_directory, read_json, write_json
from heddle.graph.pgraph import PGraph, depths, topological_order
from heddle.graph.primitive import RoundsConfig
from heddle.graph.render import render_mermaid, render_text
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.rounds import lower_round
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES
from heddle.runtime.receipt import Receipt
from heddle.workflow.workflow import Workflow

RUNS = 3
DEFAULT_QUESTION = "What is this about?"


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
        "--question",
        default=DEFAULT_QUESTION,
        metavar="TEXT",
        help=f"question for --analyze; default: {DEFAULT_QUESTION}",
    )
    add_topk(parser)
    add_documents(parser)
    add_connectors(parser)
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the workflow's first region before and after each pass, and measured times."""
    connectors = load_connectors(options.connectors)
    workflow = drawn_workflow(options.workflow, options.topk, connectors)
    if options.analyze:
        check_connectors(options.workflow, connectors)
    receipts = _analyze(workflow, options) if options.analyze else ()
    predicted = _profile()
    graph = lower_region(
        workflow, workflow.entries, initial_scope(dict.fromkeys(workflow.inputs, ""))
    ).graph
    verify(graph)
    _print(f"workflow {workflow.name!r} as lowered", graph, predicted, options.mermaid)
    for rewrite in GRAPH_PASSES:
        changed = rewrite.apply(graph)
        if changed is None:
            print(f"\nafter {rewrite.name}: no change")
            continue
        verify(changed)
        graph = changed
        _print(f"after {rewrite.name}", graph, predicted, options.mermaid)
    _explain_rounds(graph, options.mermaid)
    names = ", ".join(cycle_pass.name for cycle_pass in CYCLE_PASSES)
    print(f"\non every scheduling cycle: {names}")
    for branch in workflow.branches:
        ways = ", ".join(map(str, branch.targets))
        print(f"after node {branch.source!r} a callable edge chooses among {ways} or END;")
        print("  what it chooses is lowered when it is known")
    chosen = choices(options, ServerConfig).get("generator")
    if chosen is not None and is_remote(chosen.value):
        print(f"\nanother server runs the model: Heddle leaves out {LEFT_OUT}")
    if receipts:
        print("\n".join(_measured_lines(receipts)))
    elif predicted:
        print("\npredicted from the times of the last run with --analyze")
    else:
        print("\nno predicted times yet: run once with --analyze DIR")
    return 0


def _explain_rounds(graph: PGraph, as_mermaid: bool) -> None:
    """Print what each generation that retrieves while it decodes goes on with after a pause."""
    depth = depths(graph)
    for primitive in graph.primitives:
        if not isinstance(primitive.config, RoundsConfig):
            continue
        pause, retrievals_max = primitive.config.pause, primitive.config.retrievals_max
        when = (
            f"after every {pause.after} tokens"
            if pause.after is not None
            else f"before a token of a probability under {pause.below}"
        )
        following = lower_round(primitive, 1, depth[primitive.name])
        verify(following)
        title = f"node {primitive.node!r} retrieves {when}, at most {retrievals_max} times"
        _print(f"{title}; the first time it goes on with", following, {}, as_mermaid)


def _print(title: str, graph: PGraph, predicted: Mapping[str, float], as_mermaid: bool) -> None:
    print(f"\n{title}:")
    print(render_mermaid(graph) if as_mermaid else render_text(graph))
    if predicted:
        print(f"predicted critical path: {_critical_path_s(graph, predicted):.3f} s")


def _critical_path_s(graph: PGraph, seconds_by_kind: Mapping[str, float]) -> float:
    """Return the longest way through the graph, each primitive as long as its kind's mean."""
    by_name = graph.by_name()
    finish: dict[str, float] = {}
    for name in topological_order(graph):
        starts = [finish[e.producer] for e in graph.edges if e.consumer == name]
        length_s = seconds_by_kind.get(by_name[name].kind.value, 0.0)
        finish[name] = max(starts, default=0.0) + length_s
    assert set(finish) == set(depths(graph)), "the graph has a cycle"
    return max(finish.values(), default=0.0)


def _profile() -> dict[str, float]:
    known = read_json(cache_directory() / "profile.json")
    return dict(known) if isinstance(known, dict) else {}


def _analyze(workflow: Workflow, options: argparse.Namespace) -> Sequence[Receipt]:
    """Run the workflow a few times; remember the medians by kind as the profile of predictions."""
    config = server_config(options, index=options.analyze)
    with start_server(config) as server, status("running the workflow"):
        app = server.app(workflow)
        brought = document_options(options)
        receipts = [app.invoke(options.question, **brought).receipt for _ in range(RUNS)]
    write_json(cache_directory() / "profile.json", _medians(receipts, by_kind=True))
    return receipts


def _measured_lines(receipts: Sequence[Receipt]) -> Iterator[str]:
    yield f"\nmeasured, median of {len(receipts)} runs; turns of a loop count from @0:"
    for name, seconds in _medians(receipts, by_kind=False).items():
        yield f"  {name:<28} {seconds:.4f} s"
    latency_s = statistics.median(receipt.latency_s for receipt in receipts)
    yield f"  {'the whole request':<28} {latency_s:.4f} s"


def _medians(receipts: Sequence[Receipt], *, by_kind: bool) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for receipt in receipts:
        for took in primitive_times(receipt):
            key = took.span.kind.value if by_kind else took.span.name
            times.setdefault(key, []).append(took.ran_s)
    return {key: statistics.median(values) for key, values in times.items()}
