"""Runs the passes: times each, verifies after each change, can leave any out by name."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, runtime_checkable

from heddle.core.errors import ConfigError, HeddleError, InternalError
from heddle.core.ports import Clock
from heddle.graph.pgraph import PGraph
from heddle.graph.verify import verify
from heddle.passes.ask_ahead import AskAhead
from heddle.passes.cycle_view import CycleView, Edit
from heddle.passes.decompose_stages import DecomposeStages
from heddle.passes.draft_answers import DraftAnswers
from heddle.passes.edit_check import check_edits
from heddle.passes.pipeline_decoding import PipelineDecoding
from heddle.passes.prefetch_kv import PrefetchKv
from heddle.passes.prune_dependencies import PruneDependencies
from heddle.passes.rewrite_check import check_rewrite
from heddle.passes.skip_repeats import SkipRepeats
from heddle.passes.speculate_generation import SpeculateGeneration
from heddle.passes.speculate_prefill import SpeculatePrefill
from heddle.passes.split_prefill import SplitPrefill
from heddle.passes.split_substages import SplitSubstages

log = logging.getLogger(__name__)


class GraphPass(Protocol):
    """Rewrites one request's graph, once, before it runs.

    Example:
        from dataclasses import replace
        from heddle import GraphPass, Server
        from heddle.graph.primitive import SearchConfig

        class TwoPassages(GraphPass):
            name = "two_passages"

            def apply(self, graph):
                two = tuple(
                    replace(one, config=replace(one.config, topk=2))
                    if isinstance(one.config, SearchConfig)
                    else one
                    for one in graph.primitives
                )
                return None if two == graph.primitives else replace(graph, primitives=two)

        with Server(None, "corpus", passes=[TwoPassages()]) as server:
            print(len(server.search("a mill", topk=3).passages))  # 2
    """

    @property
    def name(self) -> str:
        """The name it is disabled and timed by."""
        ...

    def apply(self, graph: PGraph) -> PGraph | None:
        """Return the rewritten graph, or None where nothing changes."""
        ...


@runtime_checkable
class ExplainsItself(Protocol):
    """A graph pass that can say why it leaves a graph as it is. A pass may do without."""

    def reason(self, graph: PGraph) -> str:
        """Return in plain words why `apply` returns None for this graph."""
        ...


@runtime_checkable
class ExplainsCycles(Protocol):
    """A cycle pass that can say why it asks for nothing. A pass may do without."""

    def reason(self, view: CycleView) -> str:
        """Return in plain words why `apply` returns nothing; empty where nothing was offered."""
        ...


class CyclePass(Protocol):
    """Looks at the wavefront of all requests, every scheduling cycle.

    Example:
        from heddle import CyclePass, Server
        from heddle.core.primitives import PrimitiveKind
        from heddle.passes.cycle_view import SetBudget

        class ShortSearchSteps(CyclePass):
            name = "short_search_steps"

            def apply(self, view):
                return tuple(
                    SetBudget(engine.name, 0.005, gain_s=0.0)
                    for engine in view.engines.values()
                    if PrimitiveKind.SEARCHING in engine.kinds
                )

        with Server(None, "corpus", passes=[ShortSearchSteps()]) as server:
            server.search("a mill")
            print(server.state().cycle_passes["short_search_steps"].acted > 0)  # True
    """

    @property
    def name(self) -> str:
        """The name it is disabled and timed by."""
        ...

    def apply(self, view: CycleView) -> tuple[Edit, ...]:
        """Return what should change this cycle."""
        ...


# Pruning comes first: every later rewrite looks for primitives that are free to move.
GRAPH_PASSES: Final[tuple[GraphPass, ...]] = (
    PruneDependencies(),
    SkipRepeats(),
    DraftAnswers(),
    PipelineDecoding(),
    DecomposeStages(),
    SplitPrefill(),  # of the searches that begin early, the first end early
)
REQUESTED_PASSES: Final[tuple[GraphPass, ...]] = (AskAhead(),)
CYCLE_PASSES: Final[tuple[CyclePass, ...]] = (
    SplitSubstages(),
    SpeculatePrefill(),
    SpeculateGeneration(),  # behind the prompts of the pass before
    PrefetchKv(),
)


def check_pass_names(
    names: frozenset[str],
    known: Iterable[GraphPass | CyclePass] = (*GRAPH_PASSES, *REQUESTED_PASSES, *CYCLE_PASSES),
) -> None:
    """Check names of passes to leave out.

    Raises:
        ConfigError: there is no such pass.
    """
    known_names = {one.name for one in known}
    if unknown := names - known_names:
        raise ConfigError(
            f"disabled_passes: {', '.join(sorted(unknown))} don't exist; "
            f"known: {', '.join(sorted(known_names))}"
        )


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One application of a pass: whether it changed anything, and how long it took [s].

    `error` says why it was left out, where failing passes are. `reason` says why it changed
    nothing; it is empty where the pass has no `reason`.
    """

    name: str
    changed: bool
    seconds: float
    error: str = ""
    reason: str = ""


class PassStep(NamedTuple):
    """A graph as it is behind one pass, and what the pass did."""

    graph: PGraph
    record: PassRecord


@dataclass(slots=True)
class CycleCount:
    """What a cycle pass has done so far.

    It was asked in `cycles` cycles and returned edits in `acted` of them; `gain_s` is the sum of
    the gains that these edits predicted [s]. `error` says why it is left out since, where it
    failed. `reason` is the newest of why it did not act, where the pass says so.
    """

    cycles: int = 0
    acted: int = 0
    gain_s: float = 0.0
    error: str = ""
    reason: str = ""


@dataclass(slots=True)
class PassRunner:
    """The only door to the passes.

    Args:
        clock: times the passes.
        requested_passes: run for graphs of requests that ask for them, behind the others.
        disabled: names of passes to leave out.
        on_failure: "fail" lets a failing graph pass fail its request; "keep" goes on with the
            graph before it, and the record says so.

    A cycle pass serves all requests at once, and none depends on its edits. One that fails, or asks
    for an edit that can't be, is logged, named in `failed` and left out from then on; none of its
    edits takes effect.

    Raises:
        ConfigError: `disabled` names a pass that doesn't exist, or `on_failure` is neither.
    """

    clock: Clock
    graph_passes: Sequence[GraphPass] = GRAPH_PASSES
    requested_passes: Sequence[GraphPass] = REQUESTED_PASSES
    cycle_passes: Sequence[CyclePass] = CYCLE_PASSES
    disabled: frozenset[str] = frozenset()
    on_failure: str = "fail"
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    cycle_counts: dict[str, CycleCount] = field(default_factory=dict)
    _explaining: dict[str, ExplainsCycles] = field(init=False)  # found once: a cycle is short

    def __post_init__(self) -> None:
        if self.on_failure not in ("fail", "keep"):
            raise ConfigError(f"on_failure must be fail or keep, got {self.on_failure!r}")
        self._explaining = {
            one.name: one for one in self.cycle_passes if isinstance(one, ExplainsCycles)
        }
        check_pass_names(
            self.disabled, (*self.graph_passes, *self.requested_passes, *self.cycle_passes)
        )

    def optimize(
        self, graph: PGraph, requested: frozenset[str] = frozenset()
    ) -> tuple[PGraph, tuple[PassRecord, ...]]:
        """Run every enabled graph pass once, in order, and verify after each change.

        `requested` names the passes that the request asks for beside those that all get.
        """
        records = []
        for step in self.steps(graph, requested):
            graph = step.graph
            records.append(step.record)
        return graph, tuple(records)

    def steps(self, graph: PGraph, requested: frozenset[str] = frozenset()) -> Iterator[PassStep]:
        """Run every enabled graph pass as `optimize` does, and yield the graph behind each."""
        verify(graph)
        asked_for = (p for p in self.requested_passes if p.name in requested)
        for graph_pass in (*self.graph_passes, *asked_for):
            if graph_pass.name in self.disabled:
                continue
            started_s = self.clock.now_s()
            try:
                rewritten, error = _rewrite(graph_pass, graph), ""
            except InternalError as failure:
                if self.on_failure == "fail":
                    raise
                self.failed.add(graph_pass.name)
                rewritten, error = None, str(failure)
            seconds = self._time(graph_pass.name, started_s)
            is_idle = rewritten is None and not error
            reason = _reason(graph_pass, graph) if is_idle else ""
            graph = graph if rewritten is None else rewritten
            changed = rewritten is not None
            yield PassStep(graph, PassRecord(graph_pass.name, changed, seconds, error, reason))

    def look(self, view: CycleView) -> tuple[Edit, ...]:
        """Run every enabled cycle pass on the wavefront and return all edits."""
        edits: list[Edit] = []
        for cycle_pass in self.cycle_passes:
            if cycle_pass.name in self.disabled or cycle_pass.name in self.failed:
                continue
            count = self.cycle_counts.setdefault(cycle_pass.name, CycleCount())
            started_s = self.clock.now_s()
            try:
                found = check_edits(view, cycle_pass.apply(view), edits)
                explaining = None if found else self._explaining.get(cycle_pass.name)
                if explaining is not None:
                    count.reason = explaining.reason(view) or count.reason
            except (Exception, SystemExit) as error:  # a user's pass may do anything
                log.exception("cycle pass %s failed and is left out from now on", cycle_pass.name)
                self.failed.add(cycle_pass.name)
                count.error = f"{type(error).__name__}: {error}"
                found = ()
            self._time(cycle_pass.name, started_s)
            count.cycles += 1
            count.acted += bool(found)
            count.gain_s += sum(edit.gain_s for edit in found)
            edits.extend(found)
        return tuple(edits)

    def _time(self, name: str, started_s: float) -> float:
        seconds = self.clock.now_s() - started_s
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        return seconds


def _reason(graph_pass: GraphPass, graph: PGraph) -> str:
    """Return why a pass changed nothing; a request never fails for want of words."""
    if not isinstance(graph_pass, ExplainsItself):
        return ""
    try:
        return str(graph_pass.reason(graph))
    except (Exception, SystemExit):  # a user's pass may do anything
        log.exception("pass %s could not say why it changed nothing", graph_pass.name)
        return ""


def _rewrite(rewrite: GraphPass, graph: PGraph) -> PGraph | None:
    """Apply a pass and verify the graph it returns; every failure raises an InternalError."""
    try:
        rewritten = rewrite.apply(graph)
        return None if rewritten is None else check_rewrite(graph, rewritten)
    except HeddleError as error:
        raise InternalError(f"pass {rewrite.name!r} failed: {error}") from error
    except (Exception, SystemExit) as error:  # a user's pass may do anything
        what = f"{type(error).__name__}: {error}"
        raise InternalError(f"pass {rewrite.name!r} failed: {what}") from error
