from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.vector.ivf.early_stop.looks import looks_at


def test_a_search_is_looked_at_so_often_for_each_doubling_and_at_its_end():
    assert looks_at(50, 1).tolist() == [4, 6, 8, 12, 16, 24, 32, 48, 50]
    expected = [4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 50]
    assert looks_at(50, 1, 4).tolist() == expected


@given(st.integers(1, 5000), st.integers(1, 200), st.sampled_from([1, 2, 4]))
def test_between_two_looks_lies_more_work_than_a_look(lists, lists_per_look, per_doubling):
    looks = looks_at(lists, lists_per_look, per_doubling).tolist()
    assert looks[-1] == lists
    steps = [b - a for a, b in zip([0, *looks], looks, strict=False)]
    assert len(looks) == 1 or min(steps) >= lists_per_look
