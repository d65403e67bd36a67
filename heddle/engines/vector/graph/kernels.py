"""The graph search itself, compiled by Numba: seed slots, advance them."""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.kernels.half_kernels import Bits, distance, prefetch_vector

AHEAD = 4  # neighbours whose vectors are on their way while one is compared
NOBODY = -1
UNSEEDED = -1
TOPM, MASK, CURSOR, EXTENDS = 0, 1, 2, 3  # of SlotState.marks
SEEDS = 8  # of the entry points, the nearest, from which a search sets out
NEAR_GROUPS = 8  # of entry points, whose members are compared


class SlotState(NamedTuple):
    """The searches in flight, one a slot; no slot's arithmetic depends on another.

    Shapes (S slots, topM at most m): queries [S, d] float32; ids [S, m] int32, distances [S, m]
    float32 and is_expanded [S, m] bool are the topM so far, ascending; visited [S, v] int32, a
    hash table that forgets; marks [S, 4] int64: TOPM, MASK (of the part of its table that a search
    uses), CURSOR (the first place that may be unexpanded, UNSEEDED before the search has begun)
    and EXTENDS made. Few arrays, as each takes its time on the way into compiled code.
    """

    queries: NDArray[np.float32]
    ids: NDArray[np.int32]
    distances: NDArray[np.float32]
    is_expanded: NDArray[np.bool_]
    visited: NDArray[np.int32]
    marks: NDArray[np.int64]


class EntryPoints(NamedTuple):
    """Where searches can set out, in groups, so that most of them need not be compared.

    Shapes: nodes [e] int32, a group's together; vectors [e, d] float16 bits; starts [g + 1] int64,
    where each group begins; centres [g, d] float16 bits, what is near to each group.
    """

    nodes: NDArray[np.int32]
    vectors: Bits
    starts: NDArray[np.int64]
    centres: Bits


@numba.njit(cache=True)
def _is_new(visited: NDArray[np.int32], mask: int, node: int) -> bool:
    """Note a visit; False when it was noted. What shares its place pushes it out again."""
    place = (node * 0x9E3779B1 >> 7) & mask
    if visited[place] == node:
        return False
    visited[place] = node
    return True


@numba.njit(cache=True)
def _insert(
    ids: NDArray[np.int32],
    distances: NDArray[np.float32],
    is_expanded: NDArray[np.bool_],
    topm: int,
    node: int,
    at: np.float32,
) -> int:
    """Keep the topM nearest, ascending, equals by id; return the place, or topm if it is too far.

    A node that is in already stays as it is: the table of visits may have forgotten it.
    """
    last = topm - 1
    if at > distances[last] or (at == distances[last] and node >= ids[last]):
        return topm
    place = last
    while place > 0 and (
        distances[place - 1] > at or (distances[place - 1] == at and ids[place - 1] > node)
    ):
        place -= 1
    if place > 0 and ids[place - 1] == node:
        return topm
    for i in range(last, place, -1):
        ids[i], distances[i], is_expanded[i] = ids[i - 1], distances[i - 1], is_expanded[i - 1]
    ids[place], distances[place], is_expanded[place] = node, at, False
    return place


@numba.njit(fastmath=True, cache=True)
def _seed(slot: int, entries: EntryPoints, state: SlotState) -> None:
    """Begin a slot's search at the entry points nearest to its query, of the nearest groups."""
    topm, mask = state.marks[slot, TOPM], state.marks[slot, MASK]
    ids, distances = state.ids[slot], state.distances[slot]
    is_expanded, visited = state.is_expanded[slot], state.visited[slot]
    query = state.queries[slot]
    ids[:topm], distances[:topm], is_expanded[:topm] = NOBODY, np.inf, True
    visited[: mask + 1] = NOBODY
    count = min(SEEDS, topm, len(entries.nodes))
    to_groups = np.empty(len(entries.starts) - 1, np.float32)
    for group in range(len(to_groups)):
        to_groups[group] = distance(entries.centres, group, query)
    for _ in range(min(NEAR_GROUPS, len(to_groups))):
        nearest = np.argmin(to_groups)
        to_groups[nearest] = np.inf
        stop = entries.starts[nearest + 1]
        for entry in range(entries.starts[nearest], stop):
            if entry + AHEAD < stop:
                prefetch_vector(entries.vectors, entry + AHEAD)
            at = distance(entries.vectors, entry, query)
            _insert(ids, distances, is_expanded, count, entries.nodes[entry], at)
    for i in range(count):
        _is_new(visited, mask, ids[i])
    state.marks[slot, CURSOR] = 0


@numba.njit(fastmath=True, cache=True, nogil=True)
def advance(
    slots: NDArray[np.int64],
    quantum: int,
    seed_extends: int,
    vectors: Bits,
    neighbours: NDArray[np.int32],
    entries: EntryPoints,
    state: SlotState,
    over: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Extend searches, each to its end before the next, until `quantum` extends are used.

    An extend opens the nearest node of a search's topM that is not expanded yet; where there is
    none, the search is over: its cursor stands at its topM, and `over` names its slot. To begin
    one counts as `seed_extends`. Returns the searches begun, the extends made and those over.
    """
    fresh = np.empty(neighbours.shape[1], np.int32)
    seeded = extends = ended = 0
    for slot in slots:
        if seeded * seed_extends + extends >= quantum:
            break
        if state.marks[slot, CURSOR] == UNSEEDED:
            _seed(slot, entries, state)
            seeded += 1
        ids, is_expanded = state.ids[slot], state.is_expanded[slot]
        topm, cursor = state.marks[slot, TOPM], state.marks[slot, CURSOR]
        while True:
            while cursor < topm and is_expanded[cursor]:
                cursor += 1
            if cursor == topm:
                over[ended] = slot
                ended += 1
                break
            if seeded * seed_extends + extends >= quantum:
                break
            is_expanded[cursor] = True
            count = _fresh_neighbours(neighbours[ids[cursor]], slot, state, fresh)
            cursor = min(cursor, _compare(fresh[:count], vectors, slot, state))
            state.marks[slot, EXTENDS] += 1
            extends += 1
        state.marks[slot, CURSOR] = cursor
    return seeded, extends, ended


@numba.njit(cache=True)
def _fresh_neighbours(
    neighbours: NDArray[np.int32], slot: int, state: SlotState, fresh: NDArray[np.int32]
) -> int:
    """Write the neighbours that were not visited into `fresh` and return how many."""
    visited, mask = state.visited[slot], state.marks[slot, MASK]
    count = 0
    for node in neighbours:
        if node != NOBODY and _is_new(visited, mask, node):
            fresh[count] = node
            count += 1
    return count


@numba.njit(fastmath=True, cache=True)
def _compare(nodes: NDArray[np.int32], vectors: Bits, slot: int, state: SlotState) -> int:
    """Merge nodes into a slot's topM; return the first place that changed, or topm."""
    topm, query = state.marks[slot, TOPM], state.queries[slot]
    ids, distances, is_expanded = state.ids[slot], state.distances[slot], state.is_expanded[slot]
    first: int = topm
    for i in range(min(AHEAD, len(nodes))):
        prefetch_vector(vectors, nodes[i])
    for i in range(len(nodes)):
        if i + AHEAD < len(nodes):
            prefetch_vector(vectors, nodes[i + AHEAD])
        at = distance(vectors, nodes[i], query)
        first = min(first, _insert(ids, distances, is_expanded, topm, nodes[i], at))
    return first
