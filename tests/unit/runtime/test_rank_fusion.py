from heddle.engines.vector.graph.scheduler import TOPM_MAX
from heddle.runtime.rank_fusion import fused, ranked


def test_what_both_rankings_have_high_comes_first():
    assert fused([[1, 2, 3], [3, 2, 4]], 4) == [3, 2, 1, 4]


def test_of_equals_the_smaller_id_comes_first():
    assert fused([[7, 8], [8, 7]], 2) == [7, 8]
    assert fused([[9], [4]], 1) == [4]


def test_rankings_may_be_empty_or_of_any_length():
    assert fused([], 3) == fused([[], []], 3) == []
    assert fused([[5], [], [6, 5]], 9) == [5, 6]


def test_rankings_are_longer_than_what_is_kept():
    assert (ranked(1), ranked(100)) == (30, 300)


def test_rankings_are_never_longer_than_a_graph_keeps():
    assert ranked(1000) == TOPM_MAX


def test_more_hits_than_that_are_asked_for_as_they_are():
    assert ranked(2000) == 2000
