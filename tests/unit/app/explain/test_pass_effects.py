"""What passes do, in words; also passes of users, which say nothing of themselves."""

import pytest

from heddle.app.explain.pass_effects import PassEffect, cycle_effects, graph_effects
from heddle.app.explain.predicted import StageLengths
from heddle.core.errors import InternalError
from heddle.graph.pgraph import EdgeKind, PGraph
from heddle.lowering.lower import lower_region
from heddle.lowering.scope import initial_scope
from heddle.passes.runner import GRAPH_PASSES, REQUESTED_PASSES, CycleCount, PassRunner
from heddle.workflow.presets import preset
from tests.helpers.fake_ports import ManualClock

LENGTHS = StageLengths(
    {"embedding": 1.0, "searching": 1.0, "prefilling": 1.0, "decoding": 4.0},
    rows={"retrieve.embedding@0": 4, "retrieve.searching@0": 4},
)


def lowered(name: str) -> PGraph:
    workflow = preset(name).compile()
    return lower_region(workflow, workflow.entries, initial_scope({"query": ""})).graph


def effects_of(runner: PassRunner, name: str, requested: frozenset[str] = frozenset()):
    found = graph_effects(runner, requested, lowered(name), LENGTHS)
    return {effect.name: effect for effect in found}


def test_every_pass_says_what_it_did():
    found = effects_of(PassRunner(ManualClock()), "multistep")
    assert list(found) == [each.name for each in (*GRAPH_PASSES, *REQUESTED_PASSES)]
    assert found["prune_dependencies"].words == (
        "2 order edges removed (decompose.decoding@0 -> retrieve.embedding@0, "
        "retrieve.aggregate@0 -> answer.prefilling@0)"
    )
    assert found["prune_dependencies"].gain_s == 0.0
    assert found["pipeline_decoding"].gain_s == pytest.approx(2 * 3 / 4)
    assert found["split_prefill"].gain_s == pytest.approx(3 / 4)
    assert found["skip_repeats"] == PassEffect(
        "skip_repeats", None, "no prompt here belongs to a later turn of a loop"
    )
    assert found["ask_ahead"].words == "it runs only for requests that ask for it"


def test_without_lengths_no_gain_is_made_up():
    effects = graph_effects(
        PassRunner(ManualClock()), frozenset(), lowered("multistep"), StageLengths()
    )
    assert {effect.gain_s for effect in effects} == {None}


def test_what_is_asked_for_runs_and_what_is_disabled_says_so():
    disabled = frozenset({"split_prefill"})
    runner = PassRunner(ManualClock(), disabled=disabled)
    found = effects_of(runner, "multistep", frozenset({"ask_ahead"}))
    assert found["ask_ahead"].words.startswith("1 primitive added (answer.asking@0)")
    assert found["ask_ahead"].gain_s is None  # no question was ever measured
    assert found["split_prefill"] == PassEffect(
        "split_prefill", None, "left out by disabled_passes"
    )


class Silent:
    """A user's pass that knows nothing of reasons."""

    name = "silent"

    def apply(self, graph: PGraph) -> PGraph | None:
        return None


class Broken(Silent):
    def apply(self, graph: PGraph) -> PGraph | None:
        return graph.with_edges(e for e in graph.edges if e.kind is not EdgeKind.DATA)


def test_a_pass_of_a_user_needs_no_reason():
    runner = PassRunner(ManualClock(), graph_passes=(Silent(),), requested_passes=())
    assert effects_of(runner, "oneshot")["silent"].words == "it found nothing to change"


def test_a_pass_that_breaks_the_graph_is_named():
    broken = {"graph_passes": (Broken(),), "requested_passes": ()}
    with pytest.raises(InternalError, match="'silent' failed"):
        effects_of(PassRunner(ManualClock(), **broken), "oneshot")
    kept = PassRunner(ManualClock(), **broken, on_failure="keep")
    assert "without a data edge" in effects_of(kept, "oneshot")["silent"].words


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (None, "it acts on the requests under way, so only a run shows it"),
        ({}, "no cycle has asked it"),
        ({"silent": CycleCount(5)}, "it did not act: in 5 cycles nothing promised a gain"),
        (
            {"silent": CycleCount(5, reason="the disk is fast")},
            "it did not act: in 5 cycles nothing promised a gain; the disk is fast",
        ),
        ({"silent": CycleCount(5, 2, 0.5)}, "it acted in 2 of 5 cycles"),
        (
            {"silent": CycleCount(5, 2, 0.5, "KeyError: 1")},
            "it failed, and was left out from then on: KeyError: 1",
        ),
    ],
)
def test_cycle_passes_say_what_they_did(counts, words: str):
    (effect,) = cycle_effects((Silent(),), frozenset(), counts)
    assert effect.words == words
    (effect,) = cycle_effects((Silent(),), frozenset({"silent"}), counts)
    assert effect.words == "left out by disabled_passes"
