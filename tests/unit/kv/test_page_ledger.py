"""The ledger under random operations, against a model that is a plain dict of counts."""

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.core.errors import InternalError
from heddle.kv.page_ledger import PageLedger

PAGES = 24


class LedgerMachine(RuleBasedStateMachine):
    """Random holders take, share, cache and release pages."""

    def __init__(self):
        super().__init__()
        self.ledger = PageLedger(PAGES, 16)
        self.holders: list[list[int]] = []
        self.cached: set[int] = set()
        self.told: list[int] = []

    @rule(count=st.integers(1, 8), grow=st.booleans())
    def allocate(self, count, grow):
        after = self.holders[-1][-1] if grow and self.holders and self.holders[-1] else None
        if count > self.ledger.free_count:
            with pytest.raises(InternalError, match="free"):
                self.ledger.allocate(count, after)
            return
        pages = self.ledger.allocate(count, after)
        assert len(set(pages)) == count
        assert not set(pages) & {page for pages in self.holders for page in pages}
        assert not set(pages) & self.cached
        self.holders.append(pages)

    @rule(data=st.data())
    def share(self, data):
        wanted = sorted({page for pages in self.holders for page in pages} | self.cached)
        if wanted:
            page = data.draw(st.sampled_from(wanted))
            self.ledger.share([page])
            self.holders.append([page])

    @rule(data=st.data())
    def cache(self, data):
        held = sorted({page for pages in self.holders for page in pages})
        if held:
            page = data.draw(st.sampled_from(held))
            self.ledger.mark_cached(page, partial(self.told.append, page))
            self.cached.add(page)

    @rule(data=st.data())
    def discard(self, data):
        pages = data.draw(st.sets(st.integers(0, PAGES - 1), max_size=6))
        self.ledger.discard(sorted(pages))
        self.cached -= pages

    @rule(count=st.integers(0, PAGES + 2))
    def make_room(self, count):
        held = {page for pages in self.holders for page in pages}
        before = self.ledger.free_count
        assert self.ledger.make_room(count) == (count <= PAGES - len(held))
        assert self.ledger.free_count >= min(count, PAGES - len(held)) or not self.told
        self.cached -= set(self.told)
        assert self.ledger.free_count == before + len(self.told)
        self.told.clear()

    @rule(data=st.data())
    def release(self, data):
        if self.holders:
            index = data.draw(st.integers(0, len(self.holders) - 1))
            self.ledger.release(self.holders.pop(index)[::-1])

    @rule()
    def evict(self):
        held = {page for pages in self.holders for page in pages}
        if not self.cached - held:
            with pytest.raises(InternalError, match="idle"):
                self.ledger.evict_oldest()
            return
        page = self.ledger.evict_oldest()
        assert self.told.pop() == page
        assert page in self.cached - held, "a pinned page was evicted"
        self.cached.discard(page)

    @invariant()
    def counts_agree(self):
        self.ledger.check()
        held = {page for pages in self.holders for page in pages}
        for page in range(PAGES):
            assert self.ledger.refcount(page) == sum(page in pages for pages in self.holders)
        assert self.ledger.held_count == len(held)
        assert self.ledger.idle_count == len(self.cached - held)
        assert self.ledger.free_count == PAGES - len(held | self.cached)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=120, stateful_step_count=60, deadline=None, derandomize=True
)


def test_releasing_twice_is_refused():
    ledger = PageLedger(4, 16)
    pages = ledger.allocate(2)
    ledger.release(pages)
    with pytest.raises(InternalError, match="more often"):
        ledger.release(pages[:1])


def test_a_free_page_can_be_neither_shared_nor_cached():
    ledger = PageLedger(4, 16)
    with pytest.raises(InternalError, match="free"):
        ledger.share([0])
    with pytest.raises(InternalError, match="no holder"):
        ledger.mark_cached(0, list)


def test_sequences_grow_in_place_while_there_is_room():
    ledger = PageLedger(64, 16)
    rows = [ledger.allocate(2) for _ in range(4)]
    for _ in range(4):
        for row in rows:
            row.extend(ledger.allocate(1, row[-1]))
    for row in rows:
        assert row == list(range(row[0], row[0] + 6))


def test_the_oldest_idle_page_goes_first():
    ledger = PageLedger(4, 16)
    first, second = ledger.allocate(2)
    for page in (first, second):
        ledger.mark_cached(page, list)
    ledger.release([second])
    ledger.release([first])
    ledger.share([second])
    ledger.release([second])
    assert ledger.evict_oldest() == first
    assert ledger.evict_oldest() == second
