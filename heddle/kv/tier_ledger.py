"""One tier's bytes: what lies in it, and what leaves first when room is needed."""

import heapq
from collections.abc import Callable

from heddle.core.errors import InternalError


class TierLedger:
    """The entries of one tier under a byte budget, coldest first. Not thread-safe.

    Args:
        bytes_max: the budget; 0 = the tier takes nothing.
        heat_of: an entry's heat now. Heat only ever grows, so an entry's place in the heap is
            corrected when it comes up and not at every use.
    """

    def __init__(self, bytes_max: int, heat_of: Callable[[bytes], float]) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._heat_of = heat_of
        self._sizes: dict[bytes, int] = {}
        self._serials: dict[bytes, int] = {}
        self._serial = 0
        self._heap: list[tuple[float, int, bytes]] = []

    def __contains__(self, key: bytes) -> bool:
        return key in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, key: bytes) -> int:
        """Return the bytes that an entry takes here."""
        return self._sizes[key]

    def add(self, key: bytes, nbytes: int) -> None:
        """Account for an entry; `victims` has said whom to remove before."""
        if key in self._sizes or self.bytes_used + nbytes > self.bytes_max:
            raise InternalError(
                f"a tier of {self.bytes_max} bytes was given {nbytes} more to {self.bytes_used}"
            )
        self._serial += 1
        self._sizes[key] = nbytes
        self._serials[key] = self._serial
        self.bytes_used += nbytes
        heapq.heappush(self._heap, (self._heat_of(key), self._serial, key))

    def remove(self, key: bytes) -> None:
        """Take an entry out of the account, if it is there."""
        self.bytes_used -= self._sizes.pop(key, 0)
        self._serials.pop(key, None)
        if len(self._heap) > 2 * len(self._sizes) + 64:
            self._heap = [item for item in self._heap if self._is_current(item)]
            heapq.heapify(self._heap)

    def victims(
        self, nbytes: int, heat_max: float, is_held: Callable[[bytes], bool]
    ) -> tuple[bytes, ...] | None:
        """Return what has to leave so that `nbytes` fit, or None where they can't.

        Nothing held leaves, and nothing hotter than `heat_max`; the coldest go first. The caller
        removes them.
        """
        missing = self.bytes_used + nbytes - self.bytes_max
        if nbytes > self.bytes_max:
            return None
        looked_at: list[tuple[float, int, bytes]] = []
        chosen: list[bytes] = []
        while missing > 0 and self._heap:
            item = heapq.heappop(self._heap)
            key = item[2]
            if not self._is_current(item):
                continue
            heat = self._heat_of(key)
            if heat > item[0]:
                heapq.heappush(self._heap, (heat, item[1], key))
                continue
            looked_at.append(item)
            if heat > heat_max:
                break
            if not is_held(key):
                chosen.append(key)
                missing -= self._sizes[key]
        for item in looked_at:
            heapq.heappush(self._heap, item)
        return tuple(chosen) if missing <= 0 else None

    def _is_current(self, item: tuple[float, int, bytes]) -> bool:
        return self._serials.get(item[2]) == item[1]
