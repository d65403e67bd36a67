"""All that is known of a workflow: its regions, its passes, and what runs of it have measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from heddle.app.assembly.pass_runner import pass_runner
from heddle.app.explain.analysis import Analysis
from heddle.app.explain.pass_effects import CycleEffect, PassEffect, cycle_effects, graph_effects
from heddle.app.explain.predicted import StageLengths
from heddle.app.explain.regions import ExplainedRegion, regions_of, with_opened
from heddle.app.models.remote_name import is_remote
from heddle.app.server_config import ServerConfig
from heddle.core.ports import Clock
from heddle.core.tasks import Optimizations
from heddle.exporters.critical_path import CriticalPath, critical_path
from heddle.exporters.measured_run import MeasuredRun
from heddle.exporters.stage_table import StageTable, middle_run, stage_table
from heddle.graph.pgraph import PGraph
from heddle.passes.ask_ahead import AskAhead
from heddle.passes.runner import CycleCount, PassRunner
from heddle.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True)
class RegionReport:
    """A region, and what the passes make of it.

    Args:
        when: when it is opened, in words.
        graph: the region before any pass.
        lowered_s: the predicted length of its longest way; None = not measured [s].
        effects: what each pass does, in the order of the passes; none where no pass runs.
        final: the region behind all passes.
        final_s: the predicted length of that one's longest way; None = not measured [s].
    """

    when: str
    graph: PGraph
    lowered_s: float | None
    effects: tuple[PassEffect, ...]
    final: PGraph
    final_s: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What runs have shown: the table over all, and the path of the `middle` one."""

    table: StageTable
    middle: MeasuredRun
    path: CriticalPath
    runs: tuple[MeasuredRun, ...]
    steps_left_out: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """A workflow explained.

    Args:
        workflow: its name.
        is_function: whether a Python function makes it as it runs.
        regions: in the order in which requests may open them.
        is_cut: whether there are more regions than these.
        cycle_passes: the passes that look at all requests under way.
        has_passes: False where `optimizations` is off, so that none runs.
        measured: what runs have shown; None = nothing was run.
    """

    workflow: str
    is_function: bool
    regions: tuple[RegionReport, ...]
    is_cut: bool
    cycle_passes: tuple[CycleEffect, ...]
    has_passes: bool
    measured: Measured | None


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains workflows as a server's passes treat them.

    Args:
        runner: its passes.
        requested: names of passes that run because requests ask for them.
        has_passes: False where `optimizations` is off.
        known: lengths of stages from earlier runs, for what is not measured now.
    """

    runner: PassRunner
    requested: frozenset[str] = frozenset()
    has_passes: bool = True
    known: StageLengths = field(default_factory=StageLengths)

    @classmethod
    def of(cls, config: ServerConfig, clock: Clock, known: StageLengths | None = None) -> Self:
        """Return what explains workflows as a server with this configuration treats them.

        Args:
            config: the server's.
            clock: times the passes.
            known: lengths of stages from earlier runs; None = none are known.
        """
        mode = config.optimizations_max
        asks = (
            mode is Optimizations.APPROX
            and config.kv_reuse.asks_alone
            and not is_remote(config.generator)
        )
        return cls(
            pass_runner(config, clock),
            frozenset({AskAhead().name} if asks else ()),
            has_passes=mode is not Optimizations.OFF,
            known=StageLengths() if known is None else known,
        )

    def explain(
        self,
        workflow: Workflow,
        analysis: Analysis | None,
        opened: Sequence[PGraph] = (),
        counts: Mapping[str, CycleCount] | None = None,
    ) -> Explanation:
        """Return what is known of a workflow.

        Args:
            workflow: what is explained.
            analysis: runs of it; None = it was not run for this, and the next two say what is
                known from a server's requests.
            opened: regions, before any pass, that requests have opened.
            counts: what each pass of the scheduling cycles has done, by name; None = not known.

        Raises:
            InternalError: a pass breaks a graph.
        """
        measured = None if analysis is None else _measured(analysis)
        lengths = self.known if measured is None else StageLengths.of(measured.table.rows)
        if analysis is not None:
            opened, counts = analysis.opened, analysis.cycle_counts
        regions = with_opened(regions_of(workflow), opened)
        runner = self.runner
        return Explanation(
            workflow=workflow.name,
            is_function=workflow.function is not None,
            regions=tuple(self._report(region, lengths) for region in regions.found),
            is_cut=regions.left_out,
            cycle_passes=tuple(cycle_effects(runner.cycle_passes, runner.disabled, counts)),
            has_passes=self.has_passes,
            measured=measured,
        )

    def optimized(self, graph: PGraph) -> PGraph:
        """Return a region as the passes leave it.

        Raises:
            InternalError: a pass breaks it.
        """
        if not self.has_passes:
            return graph
        return self.runner.optimize(graph, self.requested)[0]

    def _report(self, region: ExplainedRegion, lengths: StageLengths) -> RegionReport:
        graph, effects = region.graph, tuple(self._effects(region.graph, lengths))
        final = next((e.graph for e in reversed(effects) if e.graph is not None), graph)
        return RegionReport(
            region.when,
            graph,
            lengths.critical_path_s(graph),
            effects,
            final,
            lengths.critical_path_s(final),
        )

    def _effects(self, graph: PGraph, lengths: StageLengths) -> Iterator[PassEffect]:
        if self.has_passes:
            yield from graph_effects(self.runner, self.requested, graph, lengths)


def _measured(analysis: Analysis) -> Measured:
    middle = middle_run(analysis.runs)
    return Measured(
        stage_table(analysis.runs),
        middle,
        critical_path(middle.times, middle.receipt.latency_s),
        analysis.runs,
        analysis.steps_left_out,
    )
