"""Passages that are shown while the corpus is away."""

from collections.abc import Sequence

import pytest

from heddle.app.kept_passages import KeptPassages
from heddle.core.errors import Unreachable
from heddle.core.passages import Passage


class Source:
    def __init__(self) -> None:
        self.is_away = False

    def passages(self, chunk_ids: Sequence[int]) -> list[Passage]:
        if self.is_away:
            raise Unreachable("away")
        return [Passage(one, "d", "t", f"text {one}", 0.0) for one in chunk_ids if one < 10]

    def count_damaged(self, chunk_ids: Sequence[int], tenant: str) -> int:
        return 0


def test_what_was_read_is_shown_while_the_corpus_is_away():
    source = Source()
    kept = KeptPassages(source)
    found = kept.passages([1, 2, 3, 99])
    source.is_away = True
    assert kept.passages([3, 1]) == [found[2], found[0]]
    with pytest.raises(Unreachable):
        kept.passages([1, 4])
    source.is_away = False
    assert [passage.chunk_id for passage in kept.passages([1, 4])] == [1, 4]


def test_those_used_longest_ago_go_first():
    source = Source()
    kept = KeptPassages(source, bytes_max=2 * len("text 1"))
    for one in (1, 2, 1, 3):
        kept.passages([one])
    source.is_away = True
    assert [passage.chunk_id for passage in kept.passages([1, 3])] == [1, 3]
    with pytest.raises(Unreachable):
        kept.passages([2])
