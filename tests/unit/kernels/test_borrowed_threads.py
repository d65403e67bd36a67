"""Torch's threads follow what another lane lends."""

from collections.abc import Iterator

import pytest
import torch

from heddle.kernels.borrowed_threads import BorrowedThreads


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_threads_come_and_go_with_the_cores() -> None:
    borrowed, lent = BorrowedThreads(), [False]
    torch.set_num_threads(2)
    borrowed.look()
    assert torch.get_num_threads() == 2, "nothing is borrowed until it has begun"
    borrowed.begin(lambda: lent[0], own=1, borrowed=3)
    torch.set_num_threads(1)
    found = []
    for is_lent in (False, True, True, False):
        lent[0] = is_lent
        borrowed.look()
        found.append(torch.get_num_threads())
    assert found == [1, 4, 4, 1]
