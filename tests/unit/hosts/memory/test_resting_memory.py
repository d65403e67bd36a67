"""A process that rests gives back its freed memory, where that is worth it."""

import ctypes

import pytest

from heddle.hosts.memory.resting_memory import GROWTH_BYTES_MIN, REST_S, RestingMemory


class Heap:
    """A process of which a half is free."""

    def __init__(self) -> None:
        self.bytes, self.trims = 4 * GROWTH_BYTES_MIN, 0

    def resident_bytes(self) -> int:
        return self.bytes

    def trim(self) -> None:
        self.bytes //= 2
        self.trims += 1


@pytest.fixture
def heap() -> Heap:
    return Heap()


@pytest.fixture
def memory(heap: Heap) -> RestingMemory:
    return RestingMemory(heap.resident_bytes, heap.trim)


def test_it_trims_once_it_has_rested_and_not_again(heap: Heap, memory: RestingMemory) -> None:
    for now_s in (0.0, REST_S / 2):
        memory.look(is_resting=True, now_s=now_s)
    assert heap.trims == 0
    for now_s in (REST_S, 2 * REST_S, 10 * REST_S):
        memory.look(is_resting=True, now_s=now_s)
    assert heap.trims == 1


def test_work_in_between_begins_the_rest_anew(heap: Heap, memory: RestingMemory) -> None:
    memory.look(is_resting=True, now_s=0.0)
    memory.look(is_resting=False, now_s=REST_S - 0.1)
    memory.look(is_resting=True, now_s=REST_S)
    memory.look(is_resting=True, now_s=2 * REST_S - 0.1)
    assert heap.trims == 0
    memory.look(is_resting=True, now_s=2 * REST_S)
    assert heap.trims == 1


@pytest.mark.parametrize(("grown", "trims"), [(GROWTH_BYTES_MIN - 1, 1), (GROWTH_BYTES_MIN, 2)])
def test_little_growth_is_left_alone(
    heap: Heap, memory: RestingMemory, grown: int, trims: int
) -> None:
    for now_s in (0.0, REST_S):
        memory.look(is_resting=True, now_s=now_s)
    heap.bytes += grown
    memory.look(is_resting=True, now_s=2 * REST_S)
    assert heap.trims == trims


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_this_process_can_be_trimmed() -> None:
    memory = RestingMemory.of_this_process()
    assert memory is not None
    for now_s in (0.0, REST_S):
        memory.look(is_resting=True, now_s=now_s)
    assert memory.kept_bytes > 0
