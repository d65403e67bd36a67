"""Chunks' KV in the device pool: one set of read-only pages each, for all readers. (ADR 12)"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.page_ledger import PageLedger


@dataclass(slots=True, eq=False)
class SharedPages:
    """The pages of one chunk, its keys as they are stored: at `record.base` and on.

    `block` is its KV in host memory until the pages are filled with it. From then on it is None,
    and the pages are not written again.

    Shapes: slots [record.tokens] int64, where each token lies.
    """

    record: ChunkRecord
    pages: tuple[int, ...]
    slots: NDArray[np.int64]
    block: object | None


class ChunkPages:
    """Finds the pages of stored chunks and counts their holders.

    Filled pages without a holder stay until the ledger evicts them or the chunk is forgotten. A
    chunk's pages are held and released together, so all are equally hot. One page evicted takes
    the chunk's others along, as none is of use without them.

    Mutates: takes, shares and releases pages of the ledger.
    """

    def __init__(self, ledger: PageLedger) -> None:
        self._ledger = ledger
        self._by_key: dict[bytes, SharedPages] = {}
        self._last: int | None = None  # the page that was taken last

    def __len__(self) -> int:
        return len(self._by_key)

    def pages_for(self, tokens: int) -> int:
        """Return how many pages a chunk takes: it begins with a page of its own."""
        return -(-tokens // self._ledger.page_size)

    def hold(self, record: ChunkRecord) -> SharedPages | None:
        """Return a chunk's pages with one more holder; None if it has none yet.

        An entry of the same name whose KV has seen something else is outdated: it goes with its
        last holder.
        """
        found = self._by_key.get(record.key)
        if found is None:
            return None
        if found.record != record:
            self._forget(found)
            return None
        self._ledger.share(found.pages)
        return found

    def add(self, record: ChunkRecord, block: object) -> SharedPages:
        """Take free pages for a chunk, with one holder, to be filled with its KV.

        Raises: InternalError: fewer pages are free; the caller evicts or preempts first.
        """
        # Side by side, so that the gaps between them don't cut up the room for rows.
        pages = tuple(self._ledger.allocate(self.pages_for(record.tokens), self._last))
        self._last = pages[-1]
        slots = slots_in(pages, np.arange(record.tokens), self._ledger.page_size)
        shared = self._by_key[record.key] = SharedPages(record, pages, slots, block)
        return shared

    def filled(self, shared: SharedPages) -> None:
        """Note that pages hold their chunk's KV; they stay cached after the last release."""
        if shared.block is None:
            return
        shared.block = None
        if self._by_key.get(shared.record.key) is shared:
            for page in shared.pages:
                self._ledger.mark_cached(page, partial(self._forget, shared))

    def release(self, shared: SharedPages) -> None:
        """Drop one holder; pages that were never filled are freed with the last one."""
        self._ledger.release(shared.pages)
        if shared.block is not None and self._ledger.refcount(shared.pages[0]) == 0:
            self._forget(shared)

    def keep_only(self, is_known: Callable[[bytes], bool]) -> None:
        """Forget the chunks whose keys are not known any more; what is held is freed later."""
        for shared in [one for key, one in self._by_key.items() if not is_known(key)]:
            self._forget(shared)

    def _forget(self, shared: SharedPages) -> None:
        """Remove the pages from the index, so that no prompt finds them any more."""
        if self._by_key.get(shared.record.key) is shared:
            del self._by_key[shared.record.key]
        self._ledger.discard(shared.pages)


def slots_in(pages: Sequence[int], places: NDArray[np.int64], page_size: int) -> NDArray[np.int64]:
    """Return the slots at some places of pages. Shapes: places and result [n] int64."""
    table = np.asarray(pages, dtype=np.int64)
    return table[places // page_size] * page_size + places % page_size
