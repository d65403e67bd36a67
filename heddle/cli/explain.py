"""`heddle explain WORKFLOW [--analyze DIR]`: the graph before and after each pass."""

import argparse
import importlib.util
import statistics
from collections.abc import Mapping
from pathlib import Path

from heddle.app.server import Server
from heddle.cli.cache import cache_directory, read_json, write_json
from heddle.core.errors import HeddleError, InputError, WorkflowError
from heddle.graph.pgraph import PGraph, depths, topological_order
from heddle.graph.render import render_mermaid, render_text
from heddle.graph.verify import verify
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import CYCLE_PASSES, GRAPH_PASSES
from heddle.runtime.events import Answer
from heddle.runtime.receipt import Receipt
from heddle.workflow.presets import PRESETS, preset
from heddle.workflow.ragraph import RAGraph
from heddle.workflow.workflow import Workflow

RUNS = 3
DEFAULT_QUESTION = "What is this about?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "workflow", help=f"one of {', '.join(PRESETS)}, or FILE.py:NAME of a RAGraph"
    )
    parser.add_argument("--mermaid", action="store_true", help="print Mermaid diagrams")
    parser.add_argument(
        "--analyze", type=Path, metavar="DIR", help="run it on this corpus and add measured times"
    )
    parser.add_argument("--question", default=DEFAULT_QUESTION)
    parser.add_argument("--model", default="reader", metavar="DIR-or-hub-name")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the workflow's first region before and after each pass."""
    workflow = load_workflow(options.workflow)
    measured = _analyze(workflow, options) if options.analyze else {}
    predicted = _profile()
    graph = lower_region(
        workflow, workflow.entries, initial_scope(dict.fromkeys(workflow.inputs, ""))
    ).graph
    verify(graph)
    _print(f"workflow {workflow.name!r} as lowered", graph, predicted, measured, options.mermaid)
    for rewrite in GRAPH_PASSES:
        changed = rewrite.apply(graph)
        if changed is None:
            print(f"\nafter {rewrite.name}: no change")
            continue
        verify(changed)
        graph = changed
        _print(f"after {rewrite.name}", graph, predicted, measured, options.mermaid)
    names = ", ".join(cycle_pass.name for cycle_pass in CYCLE_PASSES)
    print(f"\non every scheduling cycle: {names}")
    for branch in workflow.branches:
        ways = ", ".join(map(str, branch.targets))
        print(f"after node {branch.source!r} a callable edge chooses among {ways} or END;")
        print("  what it chooses is lowered when it is known")
    if not predicted:
        print("\nno predicted times yet: run once with --analyze DIR")
    return 0


def load_workflow(name: str) -> Workflow:
    """Return a workflow by its ready-made name or as FILE.py:NAME.

    Raises:
        WorkflowError: no such workflow, the file raises, or NAME is no RAGraph in it.
        InputError: the file isn't there.
    """
    file, colon, attribute = name.rpartition(":")
    if not colon:
        return preset(name).compile()
    path = Path(file)
    if not path.is_file():
        raise InputError(f"workflow {name!r}: there is no file {file!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"workflow {name!r}: {file!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except HeddleError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise WorkflowError(f"workflow {name!r}: {type(error).__name__}: {error}") from error
    graph = getattr(module, attribute, None)
    if isinstance(graph, Workflow):
        return graph
    if not isinstance(graph, RAGraph):
        raise WorkflowError(f"workflow {name!r}: {attribute!r} is no RAGraph in {file!r}")
    return graph.compile()


def _print(
    title: str,
    graph: PGraph,
    predicted: Mapping[str, float],
    measured: Mapping[str, float],
    as_mermaid: bool,
) -> None:
    print(f"\n{title}:")
    print(render_mermaid(graph) if as_mermaid else render_text(graph))
    if predicted:
        print(f"predicted critical path: {_critical_path_s(graph, predicted):.3f} s")
    for name in topological_order(graph):
        if name in measured:
            print(f"  measured {name:<28} {measured[name]:.4f} s")


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


def _analyze(workflow: Workflow, options: argparse.Namespace) -> dict[str, float]:
    """Run the workflow a few times; remember the means by kind as the profile of predictions."""
    receipts = []
    with Server(options.model, options.analyze) as server:
        for _ in range(RUNS):
            answer: Answer = server.app(workflow).invoke(options.question)
            receipts.append(answer.receipt)
    write_json(cache_directory() / "profile.json", _means(receipts, by_kind=True))
    return _means(receipts, by_kind=False)


def _means(receipts: list[Receipt], *, by_kind: bool) -> dict[str, float]:
    times: dict[str, list[float]] = {}
    for receipt in receipts:
        for span in receipt.spans:
            key = span.kind.value if by_kind else span.name
            times.setdefault(key, []).append(span.done_s - span.sent_s)
    return {key: statistics.median(values) for key, values in times.items()}
