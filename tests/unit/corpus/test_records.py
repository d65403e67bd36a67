"""Paths that were indexed: one inside another is not recorded twice."""

from heddle.corpus.records import outermost


def test_what_lies_in_another_is_left_out():
    paths = ["/a/b", "/a", "/ab", "/c/d", "/c/d/e.txt", "/a/b/c"]
    assert outermost(paths) == ["/a", "/ab", "/c/d"]
    assert outermost([]) == []
