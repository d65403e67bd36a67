"""Each pass on a region: its change and its gain, or why it changes nothing."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from heddle.app.explain.predicted import StageLengths
from heddle.graph.pgraph import Edge, EdgeKind, PGraph
from heddle.passes.runner import CycleCount, CyclePass, PassRecord, PassRunner

DISABLED: Final = "left out by disabled_passes"
NO_REASON: Final = "it found nothing to change"
ON_REQUEST: Final = "it runs only for requests that ask for it"
NAMES_MAX: Final = 3  # of what changed
NOT_RUN: Final = "it acts on the requests under way, so only a run shows it"


@dataclass(frozen=True, slots=True)
class PassEffect:
    """One pass on one region.

    Args:
        name: the pass's.
        graph: the region behind the pass; None = the pass did not act.
        words: its change, or why it did not act.
        gain_s: by how much the longest way through the region gets shorter; None = not measured,
            or it did not act [s].
    """

    name: str
    graph: PGraph | None
    words: str
    gain_s: float | None = None


@dataclass(frozen=True, slots=True)
class CycleEffect:
    """One pass of the scheduling cycles, over all requests of the runs.

    Args:
        name: the pass's.
        count: of its cycles and edits; None = it was never asked.
        words: why it did not act, or how often it did.
    """

    name: str
    count: CycleCount | None
    words: str


def graph_effects(
    runner: PassRunner, requested: frozenset[str], graph: PGraph, lengths: StageLengths
) -> Iterator[PassEffect]:
    """Yield what every graph pass of a runner does to a region, in the order of the passes.

    Args:
        runner: its passes.
        requested: names of passes that run because requests ask for them.
        graph: the region before any pass.
        lengths: of its stages.

    Raises:
        InternalError: a pass breaks the graph.
    """
    steps = {step.record.name: step for step in runner.steps(graph, requested)}
    for graph_pass in (*runner.graph_passes, *runner.requested_passes):
        name = graph_pass.name
        step = steps.get(name)
        if step is None:
            words = DISABLED if name in runner.disabled else ON_REQUEST
            yield PassEffect(name, None, words)
        elif not step.record.changed:
            yield PassEffect(name, None, _why_not(step.record))
        else:
            gain_s = _gain_s(graph, step.graph, lengths)
            yield PassEffect(name, step.graph, _change(graph, step.graph), gain_s)
            graph = step.graph


def cycle_effects(
    passes: Sequence[CyclePass], disabled: frozenset[str], counts: Mapping[str, CycleCount] | None
) -> Iterator[CycleEffect]:
    """Yield what every cycle pass did.

    Args:
        passes: those of a runner.
        disabled: names of passes that are left out.
        counts: what a server has counted, by name; None = nothing was run.
    """
    for cycle_pass in passes:
        name = cycle_pass.name
        count = None if counts is None else counts.get(name)
        if name in disabled:
            words = DISABLED
        elif counts is None:
            words = NOT_RUN
        elif count is None:
            words = "no cycle has asked it"
        elif count.error:
            words = f"it failed, and was left out from then on: {count.error}"
        elif not count.acted:
            words = f"it did not act: in {count.cycles} cycles nothing promised a gain"
            words += f"; {count.reason}" if count.reason else ""
        else:
            words = f"it acted in {count.acted} of {count.cycles} cycles"
        yield CycleEffect(name, count, words)


def _why_not(record: PassRecord) -> str:
    return record.error or record.reason or NO_REASON


def _gain_s(before: PGraph, after: PGraph, lengths: StageLengths) -> float | None:
    before_s, after_s = lengths.critical_path_s(before), lengths.critical_path_s(after)
    return None if before_s is None or after_s is None else before_s - after_s


def _change(before: PGraph, after: PGraph) -> str:
    """Return in words how two graphs differ."""
    was, now = before.by_name(), after.by_name()
    added, gone = after.edges - before.edges, before.edges - after.edges
    both = was.keys() & now.keys()
    found = [
        _counted("primitive", "added", now.keys() - was.keys()),
        _counted("primitive", "removed", was.keys() - now.keys()),
        _counted("primitive", "changed", {name for name in both if was[name] != now[name]}),
    ]
    for kind in EdgeKind:
        noun = f"{kind.value} edge"
        found.append(_counted(noun, "added", {_arrow(e) for e in added if e.kind is kind}))
        found.append(_counted(noun, "removed", {_arrow(e) for e in gone if e.kind is kind}))
    return "; ".join(words for words in found if words)


def _counted(noun: str, verb: str, names: Collection[str]) -> str:
    """Return in words what happened to how many things, and to which."""
    if not names:
        return ""
    shown = sorted(names)[:NAMES_MAX]
    more = ", ..." if len(names) > NAMES_MAX else ""
    plural = "" if len(names) == 1 else "s"
    return f"{len(names)} {noun}{plural} {verb} ({', '.join(shown)}{more})"


def _arrow(edge: Edge) -> str:
    return f"{edge.producer} -> {edge.consumer}"
