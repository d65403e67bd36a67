"""A row's slots and runs say the same thing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.engines.llm.step_batch import BatchRow
from heddle.kv.chunk_pages import SharedPages, slots_in
from heddle.kv.chunk_record import ChunkRecord
from heddle.kv.rows import Row, SharedSpan, slots_of

PAGE = 4


@settings(max_examples=100, derandomize=True)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True),
    st.integers(0, 12),
    st.data(),
)
def test_runs_cover_the_slots_in_order_of_position(pages, kept, data):
    row = Row(PAGE)
    row.extend(pages[:3])
    row.extend(pages[3:])
    kept = min(kept, len(pages))
    assert row.truncate(kept) == pages[kept:][::-1]
    assert row.capacity == kept * PAGE
    stop = data.draw(st.integers(0, row.capacity))
    start = data.draw(st.integers(0, stop))
    slots = [pages[p // PAGE] * PAGE + p % PAGE for p in range(start, stop)]
    assert row.slots(np.arange(start, stop)).tolist() == slots
    runs = row.runs(start, stop)
    assert [s for run in runs for s in range(run.start, run.start + run.length)] == slots
    for before, after in pairwise(runs):
        assert before.start + before.length != after.start, "two runs should be one"


def test_slots_of_scattered_positions():
    row = Row(PAGE)
    row.extend([7, 2, 9])
    np.testing.assert_array_equal(row.slots(np.array([3, 4, 9, 11])), [31, 8, 37, 39])


def test_a_row_does_not_reach_further_than_its_pages():
    row = Row(PAGE)
    row.extend([1])
    with pytest.raises(AssertionError, match="holds 4 positions"):
        row.runs(0, 5)


@st.composite
def shared_rows(draw):
    """A row of a prefix, chunks and a question, and where each position should lie."""
    prefix = draw(st.integers(0, 6))
    row = Row(PAGE)
    row.extend([50, 51, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49])
    own, rotations, position = set(range(prefix)), {}, prefix
    chunk_slots, spans = {}, []
    for number in range(draw(st.integers(1, 3))):
        tokens = draw(st.integers(1, 9))
        record = ChunkRecord(bytes([number]), b"", tokens, draw(st.integers(0, 20)))
        pages = tuple(100 + 10 * number + page for page in (2, 0, 1))
        slots = slots_in(pages, np.arange(tokens), PAGE)
        shared = SharedPages(record, pages, slots, None)
        spans.append(SharedSpan(position, position + tokens, position, shared))
        for token in range(tokens):
            slot = pages[token // PAGE] * PAGE + token % PAGE
            chunk_slots[position + token] = slot
            rotations[position + token] = position - record.base
        position += tokens + draw(st.integers(0, 2))  # and text that belongs to none
    stop = position + draw(st.integers(1, 4))
    own |= set(range(stop)) - chunk_slots.keys()
    own |= draw(st.sets(st.sampled_from(sorted(chunk_slots))))
    for span in spans[:1]:
        row.share(span)
    row.lay(prefix, np.array(sorted(own - set(range(prefix))), np.int64), stop)
    for span in spans[1:]:
        row.share(span)
    return row, sorted(own), chunk_slots, rotations, stop


def _expected(row, own, chunk_slots, length):
    """Return where each of the first positions lies."""
    numbers = {position: number for number, position in enumerate(own)}
    return [
        row.pages[numbers[p] // PAGE] * PAGE + numbers[p] % PAGE if p in numbers else chunk_slots[p]
        for p in range(length)
    ]


@settings(max_examples=150, derandomize=True)
@given(shared_rows(), st.data())
def test_a_row_over_shared_pages_finds_every_position_once(case, data):
    row, own, chunk_slots, rotations, stop = case
    own += range(stop, stop + 4)  # an answer
    length = data.draw(st.integers(1, stop + 4))
    slots = _expected(row, own, chunk_slots, length)
    turned = [0 if p in own else rotations[p] for p in range(length)]
    assert row.slots(np.arange(length)).tolist() == slots
    assert row.rotations(length).tolist() == turned
    assert row.own_count(length) == sum(p < length for p in own)

    start = data.draw(st.integers(0, length))
    skipped = data.draw(st.integers(0, start))
    visible = [(a, b) for a, b in ((0, skipped), (start, length)) if a < b]
    wanted = [p for a, b in visible for p in range(a, b)]
    shared = row.shared(visible)
    runs = tuple(run for a, b in visible for run in row.runs(a, b))
    found = BatchRow(0, 1, len(wanted), runs, shared=shared).key_table()
    assert found[0].tolist() == [slots[p] for p in wanted]
    assert found[1].tolist() == [turned[p] for p in wanted]
    for keys in shared:
        kept = slice(None) if keys.kept is None else keys.kept
        assert keys.slots.tolist() == slots_of(keys.runs)[kept].tolist()


@settings(max_examples=100, derandomize=True)
@given(shared_rows(), st.data())
def test_a_row_cut_short_keeps_what_is_before_and_lets_the_other_chunks_go(case, data):
    row, own, chunk_slots, _, stop = case
    length = data.draw(st.integers(0, stop))
    spans, slots = list(row.spans), _expected(row, own, chunk_slots, length)
    dropped = row.cut(length)
    assert dropped == [span.pages for span in spans if span.start >= length]
    more = length + 3  # own ones from there on
    got = row.slots(np.arange(more)).tolist()
    assert got[:length] == slots
    kept = [p for p in own if p < length]
    after = range(len(kept), len(kept) + 3)
    assert got[length:] == [row.pages[n // PAGE] * PAGE + n % PAGE for n in after]
    assert [span.pages for span in row.spans] + dropped == [span.pages for span in spans]
