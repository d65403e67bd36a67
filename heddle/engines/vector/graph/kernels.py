"""The graph search itself, compiled by Numba: seed slots, advance them."""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from heddle.engines.vector.half_kernels import Bits, distance, prefetch_vector

AHEAD = 4  # neighbours whose vectors are on their way while one is compared
NOBODY = -1


class SlotState(NamedTuple):
    """The searches in flight, one a slot; no slot's arithmetic depends on another.

    Shapes (S slots, topM at most m): queries [S, d] float32; ids [S, m] int32, distances [S, m]
    float32 and is_expanded [S, m] bool are the topM so far, ascending; visited [S, v] int32, a
    hash table that forgets; topms, masks, cursors (the first that may be unexpanded) and extends
    [S] int64.
    """

    queries: NDArray[np.float32]
    ids: NDArray[np.int32]
    distances: NDArray[np.float32]
    is_expanded: NDArray[np.bool_]
    visited: NDArray[np.int32]
    topms: NDArray[np.int64]
    masks: NDArray[np.int64]
    cursors: NDArray[np.int64]
    extends: NDArray[np.int64]


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
def seed(
    slots: NDArray[np.int64],
    topms: NDArray[np.int64],
    places: NDArray[np.int64],
    seeds: int,
    entries: NDArray[np.int32],
    entry_vectors: Bits,
    state: SlotState,
) -> None:
    """Start the searches in these slots from the entry points nearest to their queries.

    Shapes: slots, topms and places [m]; `places`, powers of two, is how much of its visited
    table each search uses.
    """
    for i in range(len(slots)):
        slot, topm = slots[i], topms[i]
        ids, distances = state.ids[slot], state.distances[slot]
        is_expanded, visited = state.is_expanded[slot], state.visited[slot]
        ids[:topm], distances[:topm], is_expanded[:topm] = NOBODY, np.inf, True
        visited[: places[i]] = NOBODY
        count = min(seeds, topm, len(entries))
        for entry in range(len(entries)):
            if entry + AHEAD < len(entries):
                prefetch_vector(entry_vectors, entry + AHEAD)
            at = distance(entry_vectors, entry, state.queries[slot])
            _insert(ids, distances, is_expanded, count, entries[entry], at)
        for j in range(count):
            _is_new(visited, places[i] - 1, ids[j])
        state.topms[slot], state.masks[slot] = topm, places[i] - 1
        state.cursors[slot], state.extends[slot] = 0, 0


@numba.njit(fastmath=True, cache=True)
def advance(
    slots: NDArray[np.int64],
    quantum: int,
    vectors: Bits,
    neighbours: NDArray[np.int32],
    state: SlotState,
) -> int:
    """Extend searches, each to its end before the next, until `quantum` extends are used.

    An extend opens the nearest node of a search's topM that is not expanded yet; where there is
    none, the search is over and its cursor stands at its topM. Returns the extends used.
    """
    fresh = np.empty(neighbours.shape[1], np.int32)
    used = 0
    for slot in slots:
        ids, is_expanded = state.ids[slot], state.is_expanded[slot]
        topm, cursor = state.topms[slot], state.cursors[slot]
        while True:
            while cursor < topm and is_expanded[cursor]:
                cursor += 1
            if cursor == topm or used == quantum:
                break
            is_expanded[cursor] = True
            count = _fresh_neighbours(neighbours[ids[cursor]], slot, state, fresh)
            cursor = min(cursor, _compare(fresh[:count], vectors, slot, state))
            state.extends[slot] += 1
            used += 1
        state.cursors[slot] = cursor
    return used


@numba.njit(cache=True)
def _fresh_neighbours(
    neighbours: NDArray[np.int32], slot: int, state: SlotState, fresh: NDArray[np.int32]
) -> int:
    """Write the neighbours that were not visited into `fresh` and return how many."""
    visited, mask = state.visited[slot], state.masks[slot]
    count = 0
    for node in neighbours:
        if node != NOBODY and _is_new(visited, mask, node):
            fresh[count] = node
            count += 1
    return count


@numba.njit(fastmath=True, cache=True)
def _compare(nodes: NDArray[np.int32], vectors: Bits, slot: int, state: SlotState) -> int:
    """Merge nodes into a slot's topM; return the first place that changed, or topm."""
    topm, query = state.topms[slot], state.queries[slot]
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
