"""A scrub reads every chunk in small steps, and again after a number of hours."""

import pytest

from heddle.core.errors import StorageError
from heddle.corpus.checks.scrub import FIRST_S, HOUR_S, KNOWN_S, STEP_S, Scrub
from tests.helpers.corpus_rows import rows_of
from tests.unit.corpus.corpora import embed, put


class Chunks:
    """A corpus of a few chunks that counts its reads."""

    def __init__(self, *chunk_ids):
        self.chunk_ids, self.reads, self.looks, self.is_broken = chunk_ids, [], 0, False

    def check_chunks(self, after, limit):
        if self.is_broken:
            raise StorageError("the disk refuses")
        found = [one for one in self.chunk_ids if one > after][:limit]
        self.reads.append(found)
        return found

    def check_damaged(self):
        self.looks += 1


def run(scrub, now_s, until_s):
    """Step whenever the scrub asks to be called; return the time after."""
    while now_s < until_s:
        now_s = scrub.step(now_s)
    return now_s


def test_a_pass_reads_every_chunk_once_in_bounded_steps():
    chunks = Chunks(1, 2, 5, 6, 9)
    scrub = Scrub(chunks, 24, 100.0, chunks_per_step=2)
    assert scrub.step(100.0) == 100.0 + KNOWN_S
    assert chunks.reads == []
    begin_s = 100.0 + FIRST_S
    assert scrub.step(begin_s) == begin_s + STEP_S
    run(scrub, begin_s + STEP_S, begin_s + HOUR_S)
    assert chunks.reads == [[1, 2], [5, 6], [9]]
    assert (scrub.chunks, scrub.passes) == (5, 1)


def test_the_next_pass_begins_hours_after_the_begin_of_the_last():
    chunks = Chunks(1, 2, 3)
    scrub = Scrub(chunks, 2, 0.0, chunks_per_step=2)
    now_s = run(scrub, 0.0, FIRST_S + 2 * HOUR_S - KNOWN_S)
    assert scrub.passes == 1
    run(scrub, now_s, now_s + 3 * KNOWN_S)
    assert (scrub.passes, chunks.reads) == (2, [[1, 2], [3]] * 2)


def test_a_pass_longer_than_the_pause_does_not_pile_up():
    scrub = Scrub(Chunks(*range(1, 100)), 1e-6, 0.0, chunks_per_step=1)
    run(scrub, 0.0, FIRST_S + 105 * STEP_S)
    assert scrub.passes == 1


def test_without_hours_only_known_damage_is_looked_at():
    chunks = Chunks(1)
    run(Scrub(chunks, 0, 0.0), 0.0, 10 * HOUR_S)
    assert (chunks.reads, chunks.looks) == ([], 10 * HOUR_S / KNOWN_S)


def test_what_could_not_be_read_is_tried_again():
    chunks = Chunks(1, 2, 3)
    scrub = Scrub(chunks, 1, 0.0, chunks_per_step=2)
    scrub.step(FIRST_S)
    chunks.is_broken = True
    with pytest.raises(StorageError):
        scrub.step(FIRST_S + 1)
    chunks.is_broken = False
    scrub.step(FIRST_S + 2)
    assert chunks.reads == [[1, 2], [3]]


def test_damage_is_found_and_forgotten_once_it_is_mended(store):
    put(store, "a", "one", "two", "three")
    embed(store)
    scrub = Scrub(store.health, 1, 0.0, chunks_per_step=2)
    with rows_of(store) as connection:
        connection.execute("UPDATE chunks SET text = 'other' WHERE chunk_id = 3")
        connection.execute("UPDATE vectors SET vector = zeroblob(16) WHERE chunk_id = 1")
    run(scrub, 0.0, FIRST_S + 2 * KNOWN_S)
    found = [(chunk.chunk_id, chunk.part) for chunk in store.health.damage.found()]
    assert found == [(1, "vector"), (3, "text")]
    with rows_of(store) as connection:  # as another process mends it
        connection.execute("UPDATE chunks SET text = 'three' WHERE chunk_id = 3")
    scrub.step(FIRST_S + 3 * KNOWN_S)
    assert [chunk.chunk_id for chunk in store.health.damage.found()] == [1]
