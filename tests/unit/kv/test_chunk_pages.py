"""Chunks' pages under random operations, beside prefix pages of the same ledger."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.core.errors import InternalError
from heddle.kv.chunk_pages import ChunkPages
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.page_ledger import PageLedger

PAGES, PAGE = 16, 4
BLOCK = object()


def record(number, seen=b""):
    """Return one of five chunks of 1 to 13 tokens; `seen` separates two KVs of one chunk."""
    return ChunkRecord(bytes([number]), b"chunk", 1 + 3 * number, 9, context=(seen,))


class Machine(RuleBasedStateMachine):
    """Random rows hold, fill, release and forget chunks while others take and cache pages."""

    def __init__(self):
        super().__init__()
        self.ledger = PageLedger(PAGES, PAGE)
        self.chunks = ChunkPages(self.ledger)
        self.held = []  # one entry for each holder
        self.newest = {}  # pages of each chunk that were found or made last
        self.others = []  # pages of prompts without chunks

    @rule(number=st.integers(0, 4), seen=st.sampled_from([b"", b"", b"", b"x"]))
    def hold(self, number, seen):
        wanted = record(number, seen)
        found = self.chunks.hold(wanted)
        if found is None:
            if not self.ledger.make_room(self.chunks.pages_for(wanted.tokens)):
                with pytest.raises(InternalError, match="free"):
                    self.chunks.add(wanted, BLOCK)
                return
            found = self.chunks.add(wanted, BLOCK)
            assert found.block is BLOCK
            assert not {page for page in found.pages if self.ledger.refcount(page) != 1}
        assert found.record == wanted, "KV that has seen something else"
        assert len(found.pages) == -(-wanted.tokens // PAGE)
        assert self.chunks.hold(wanted) is found
        self.chunks.release(found)
        self.held.append(found)
        self.newest[number] = found

    @rule(data=st.data())
    def fill(self, data):
        if self.held:
            self.chunks.filled(data.draw(st.sampled_from(self.held)))

    @rule(data=st.data())
    def release(self, data):
        if self.held:
            self.chunks.release(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule(known=st.sets(st.integers(0, 4)))
    def keep_only(self, known):
        self.chunks.keep_only(lambda key: key[0] in known)
        for number in {*range(5)} - known:
            assert self.chunks.hold(record(number)) is None
            assert self.chunks.hold(record(number, b"x")) is None

    @rule(count=st.integers(1, 5), is_cached=st.booleans())
    def take(self, count, is_cached):
        if self.ledger.make_room(count):
            pages = self.ledger.allocate(count)
            for page in pages if is_cached else ():
                self.ledger.mark_cached(page, list)
            self.others.append(pages)

    @rule()
    def give_back(self):
        if self.others:
            self.ledger.release(self.others.pop())

    @invariant()
    def books_balance(self):
        self.ledger.check()
        holders = [page for pages in self.others for page in pages]
        holders += [page for shared in self.held for page in shared.pages]
        for page in range(PAGES):
            assert self.ledger.refcount(page) == holders.count(page)
        for shared in self.newest.values():
            if self.chunks.hold(shared.record) is not shared:
                continue  # it was evicted, forgotten, or replaced by one that was, too
            cached = {self.ledger.is_cached(page) for page in shared.pages}
            self.chunks.release(shared)
            assert cached == {shared.block is None}, "some of a chunk's pages were evicted"
            is_held = shared in self.held
            assert is_held or shared.block is None, "no row is left to fill it"

    def teardown(self):
        for shared in self.held:
            self.chunks.release(shared)
        for pages in self.others:
            self.ledger.release(pages)
        assert self.ledger.make_room(PAGES), "a page was lost"
        assert len(self.chunks) == 0


TestChunkPages = Machine.TestCase
TestChunkPages.settings = settings(max_examples=120, stateful_step_count=60, derandomize=True)


def test_filled_pages_stay_until_room_is_wanted_and_go_together():
    ledger = PageLedger(6, PAGE)
    chunks = ChunkPages(ledger)
    shared = chunks.add(record(3), BLOCK)
    chunks.filled(shared)
    assert shared.block is None, "the block in host memory is held no longer"
    chunks.release(shared)
    assert (ledger.free_count, ledger.idle_count) == (3, 3)
    assert chunks.hold(record(3)) is shared
    chunks.release(shared)
    assert ledger.make_room(4)
    assert ledger.free_count == 6, "what is left of a chunk is of no use"
    assert chunks.hold(record(3)) is None


def test_pages_nobody_has_filled_are_not_found_again():
    ledger = PageLedger(6, PAGE)
    chunks = ChunkPages(ledger)
    chunks.release(chunks.add(record(3), BLOCK))
    assert ledger.free_count == 6
    assert chunks.hold(record(3)) is None
