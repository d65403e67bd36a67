"""The ledger under random operations, against a model that is a plain dict of counts."""

import tracemalloc
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
                self.ledger.evict_coldest()
            return
        page = self.ledger.evict_coldest()
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
TestLedger.settings = settings(max_examples=120, stateful_step_count=60, derandomize=True)


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


def rested(ledger, count, uses=1):
    """Take cached pages, use them so often, and leave them idle; the last of them goes first."""
    pages = ledger.allocate(count)
    for page in pages:
        ledger.mark_cached(page, list)
    for _ in range(uses - 1):
        ledger.share(pages)
        ledger.release(pages[::-1])
    ledger.release(pages[::-1])
    return pages


def test_of_pages_used_as_often_the_one_that_was_used_last_stays():
    ledger = PageLedger(4, 16)
    first, second = ledger.allocate(2)
    for page in (first, second):
        ledger.mark_cached(page, list)
    ledger.release([second])
    ledger.release([first])
    assert ledger.evict_coldest() == second
    assert ledger.evict_coldest() == first


def test_the_coldest_page_goes_first_not_the_oldest():
    ledger = PageLedger(8, 16)
    [hot] = rested(ledger, 1, uses=3)
    later = rested(ledger, 2)
    assert [ledger.evict_coldest() for _ in range(3)] == [later[1], later[0], hot]


def test_heat_fades_while_others_take_pages():
    """Four uses are two half-lives: after three times as many pages as there are, one is more."""
    ledger = PageLedger(8, 16)
    [hot] = rested(ledger, 1, uses=4)
    for _ in range(8):
        ledger.release(ledger.allocate(3))
    [recent] = rested(ledger, 1)
    assert [ledger.evict_coldest(), ledger.evict_coldest()] == [hot, recent]


def test_a_page_forgets_its_heat_when_it_is_free():
    ledger = PageLedger(2, 16)
    [hot] = rested(ledger, 1, uses=9)
    ledger.discard([hot])
    first, second = ledger.allocate(2)
    for page in (first, second):
        ledger.mark_cached(page, list)
    ledger.release([hot])
    ledger.release([first if hot == second else second])
    assert ledger.evict_coldest() == hot


def test_a_page_never_goes_before_one_behind_it():
    """A row that grows takes its later pages later, and they are of no use without the first."""
    ledger = PageLedger(16, 16)
    row = []
    for _ in range(4):
        row += ledger.allocate(1, row[-1] if row else None)
        ledger.mark_cached(row[-1], list)
        ledger.release(ledger.allocate(5))
    ledger.share(row[:2])  # another row begins as it does
    ledger.release(row[::-1])
    ledger.release(row[1::-1])
    assert [ledger.evict_coldest() for _ in row] == row[::-1]


def test_pages_that_come_and_go_leave_no_trace():
    ledger = PageLedger(4, 16)
    [page] = rested(ledger, 1)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            ledger.share([page])
            ledger.release([page])
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert ledger.evict_coldest() == page
