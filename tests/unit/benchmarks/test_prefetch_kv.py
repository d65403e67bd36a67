"""What the blocks with and without reads ahead come to."""

import pytest

from benchmarks.prefetch_kv import OFF, ON, QUICK, Block, headline_of


def block(disk, contender, number, seconds, texts, used=0):
    first_s = tuple(second / 2 for second in seconds)
    return Block(disk, contender, number, seconds, first_s, used, used, 1, 0, 0.0, 0, 0.0, texts)


def test_blocks_are_paired_by_their_number_and_disk():
    blocks = [
        block(None, ON, 0, (1.0, 1.0), ("a", "b"), used=3),
        block(None, OFF, 1, (2.0, 2.0), ("c", "d")),
        block(None, OFF, 0, (2.0, 2.0), ("a", "x")),
        block(None, ON, 1, (1.0, 1.0), ("c", "d"), used=2),
        block(50.0, ON, 0, (1.0,), ("a",)),
        block(50.0, OFF, 0, (4.0,), ("a",)),
    ]
    found = headline_of(blocks, QUICK, seed=1)
    assert (found["x_p50"], found["x_first_token"], found["x_p50_low95"]) == (2.0, 2.0, 2.0)
    assert (found["loads_used"], found["loads_wasted"]) == (5.0, 2.0)
    assert found["tokens_equal"] == pytest.approx(3 / 4)
    assert (found["x_p50_50_mb_s"], found["tokens_equal_50_mb_s"]) == (4.0, 1.0)
