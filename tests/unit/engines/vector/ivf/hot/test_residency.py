import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.engines.vector.ivf.hot.residency import EMPTY, Residency

NLIST, BLOCKS = 6, 10


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, NLIST - 1), st.integers(1, 4)), max_size=30)
)
def test_no_block_belongs_to_two_lists_and_none_is_lost(changes):
    residency = Residency(NLIST, BLOCKS)
    held = {}
    for is_coming, number, blocks in changes:
        if is_coming and number not in held:
            free = BLOCKS - sum(map(len, held.values()))
            given_blocks = residency.admit(number, blocks)
            assert (given_blocks is None) == (blocks > free)
            if given_blocks is not None:
                held[number] = given_blocks.tolist()
        elif not is_coming:
            residency.evict(np.array([number]))
            held.pop(number, None)
        in_use = [block for blocks in held.values() for block in blocks]
        assert len(set(in_use)) == len(in_use)
        assert EMPTY not in in_use
        assert all(1 <= block <= BLOCKS for block in in_use)
        assert residency.is_resident.nonzero()[0].tolist() == sorted(held)


def test_a_rows_blocks_are_those_of_its_lists_without_gaps():
    residency = Residency(4, 8)
    first, third = residency.admit(0, 2), residency.admit(2, 3)
    lists = np.array([[1, 0, -1, 2], [-1, -1, -1, -1], [2, -1, 3, -1]])
    blocks = residency.blocks_of(lists)
    assert blocks.shape == (3, 5)
    assert blocks[0].tolist() == [*first, *third]
    assert blocks[1].tolist() == [EMPTY] * 5
    assert blocks[2].tolist() == [*third, EMPTY, EMPTY]


def test_lists_without_blocks_need_none():
    assert Residency(3, 4).blocks_of(np.array([[0, 1], [2, -1]])).shape == (2, 0)
