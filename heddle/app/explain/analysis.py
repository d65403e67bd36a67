"""A workflow run a few times on a server that does nothing else."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.app.request_options import RequestOptions
from heddle.app.requests.documents import GivenDocument
from heddle.app.server import Server
from heddle.exporters.measured_run import MeasuredRun
from heddle.exporters.stage_times import Producers
from heddle.graph.pgraph import PGraph
from heddle.passes.runner import CycleCount
from heddle.runtime.step_log import StepLog, one_by_one
from heddle.workflow.workflow import Workflow

TENANT: Final = "heddle-explain-"


@dataclass(frozen=True, slots=True)
class Analysis:
    """What runs of one workflow have shown.

    Args:
        runs: the requests, in their order.
        opened: the graphs, before any pass, of the regions that they opened.
        cycle_counts: what each pass of the scheduling cycles did over all of them.
        steps_left_out: steps of engines that were not kept, for there were too many.
    """

    runs: tuple[MeasuredRun, ...]
    opened: tuple[PGraph, ...]
    cycle_counts: Mapping[str, CycleCount]
    steps_left_out: int = 0


def analyze(
    server: Server,
    workflow: Workflow,
    inputs: Mapping[str, object],
    runs: int,
    optimized: Callable[[PGraph], PGraph],
    documents: Sequence[GivenDocument] | None = None,
) -> Analysis:
    """Run a workflow, one request after another.

    Each run belongs to a tenant of its own: equal prompts and questions would be in the caches of
    the run before. It finds the documents that belong to no tenant.

    Args:
        server: nothing else may run on it.
        workflow: what to run.
        inputs: a value for every input.
        runs: how often, at least 1.
        optimized: returns a region as the server's passes leave it.
        documents: those that come with each request.

    Raises:
        HeddleError: a request can't be run as it is, or failed.
    """
    app = server.app(workflow)
    log = server.trace.log = StepLog()
    measured = []
    for number in range(runs):
        started_s, first = server.clock.now_s(), len(log.steps)
        how: RequestOptions = {"tenant": f"{TENANT}{number}"}
        if documents is not None:
            how["documents"] = documents
        receipt = app.invoke(inputs, **how).receipt
        measured.append((receipt, started_s, one_by_one(log.steps[first:])))
    server.trace.log = None
    opened = server.lowered_regions(workflow.name)
    producers = producers_in(map(optimized, opened))
    return Analysis(
        tuple(MeasuredRun(*parts, producers) for parts in measured),
        opened,
        server.state().cycle_passes,
        log.left_out,
    )


def producers_in(graphs: Iterable[PGraph]) -> Producers:
    """Return the producers of each primitive of some graphs."""
    found: dict[str, set[str]] = {}
    for graph in graphs:
        for edge in graph.edges:
            found.setdefault(edge.consumer, set()).add(edge.producer)
    return {consumer: frozenset(names) for consumer, names in found.items()}
