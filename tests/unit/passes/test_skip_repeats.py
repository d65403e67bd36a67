"""Only a loop's later turns can repeat a prompt, and no round of a text ever does."""

from heddle.graph.primitive import PrefillConfig
from heddle.passes.skip_repeats import SkipRepeats
from tests.helpers.loops import marked_by, round_in_a_loop, turns_of_irg


def marked(graph):
    return marked_by(SkipRepeats(), graph, PrefillConfig, "may_repeat")


def test_the_later_turns_are_marked():
    found = [marked(graph) for graph in turns_of_irg(3)]
    assert found == [[], ["answer.prefilling@1"], ["answer.prefilling@2"]]


def test_rounds_of_a_text_are_not():
    assert marked(round_in_a_loop()) == []
