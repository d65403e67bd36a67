"""Only a loop's later turns have an earlier text, and rounds of one text have none."""

from heddle.graph.primitive import DecodeConfig
from heddle.passes.draft_answers import DraftAnswers
from tests.helpers.loops import marked_by, round_in_a_loop, turns_of_irg


def marked(graph):
    return marked_by(DraftAnswers(), graph, DecodeConfig, "has_draft")


def test_the_later_turns_are_marked():
    found = [marked(graph) for graph in turns_of_irg(3)]
    assert found == [[], ["answer.decoding@1"], ["answer.decoding@2"]]


def test_rounds_of_a_text_are_not():
    assert marked(round_in_a_loop()) == []
