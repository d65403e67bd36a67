"""Entries are found, fetched, loaded aside, written behind and forgotten, on faulty disks too."""

import logging
import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from heddle.core.errors import ConfigError, InternalError
from heddle.core.kv_reuse import PrimedWith
from heddle.kv.chunk_directory import Fetch, Tier
from heddle.kv.chunk_entry import ChunkEntry
from heddle.kv.chunk_key import HitKind, PromptKeys
from heddle.kv.chunk_store import ChunkStore, ChunkStoreSettings
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.disk.chunk_writer import ChunkWriter
from heddle.kv.disk.disk_tier import DISK_RETRY_S
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock

TOKENS = 4
ENTRY_BYTES = 2 * 2 * 3 * TOKENS * 8 * 4  # keys and values, layers, heads, tokens, channels, fp32
FILE_BYTES = ENTRY_BYTES + 2048


class Clock:
    def now_s(self):
        return 0.0


class Bell:
    """Rings when a load has ended."""

    def __init__(self):
        self.rung = threading.Semaphore(0)

    def __call__(self):
        self.rung.release()

    def wait(self):
        assert self.rung.acquire(timeout=30), "no load has ended"


def keys_of(*chunks, salt=""):
    keys = PromptKeys("m", salt, (1, 2))
    for chunk in chunks:
        keys.append((chunk,) * TOKENS, source=chunk)
    return keys


def entry_of(record):
    rng = torch.Generator().manual_seed(int.from_bytes(record.key[:4], "little"))
    keys, values = torch.randn(2, 2, 3, record.tokens, 8, generator=rng)
    return ChunkEntry(record, KvBlock(keys, values))


def canonical(chunk):
    return entry_of(keys_of(chunk).canonical_record(0, 2))


def key(chunk):
    return canonical(chunk).record.key


def settings(tmp_path=None, **changes):
    base = ChunkStoreSettings(
        host_bytes_max=4 * ENTRY_BYTES,
        directory=tmp_path,
        disk_bytes_max=0 if tmp_path is None else 100 * FILE_BYTES,
        encoding=KvEncoding.AS_COMPUTED,
    )
    return replace(base, **changes)


@contextmanager
def opened(*args, wake=lambda: None, fingerprint="m", **changes):
    store = ChunkStore(settings(*args, **changes), fingerprint, Clock())
    store.subscribe(wake)
    try:
        yield store
    finally:
        store.close()


def look(store, *chunks, now_s=0.0, **options):
    keys = keys_of(*chunks)
    return store.lookup(keys.probes(len(chunks) - 1, **options), now_s)


def filled(tmp_path, *chunks):
    """Leave these chunks in the disk tier, as an earlier process."""
    with opened(tmp_path) as store:
        for chunk in chunks:
            assert store.put(canonical(chunk), 0.0)
            store.flush()


def files_in(tmp_path):
    return sorted(tmp_path.glob("*/*"))


def same(one, other):
    return torch.equal(one.block.keys, other.block.keys) and torch.equal(
        one.block.values, other.block.values
    )


# --- host memory -----------------------------------------------------------------------------


def test_what_was_put_is_found_and_fetched():
    with opened() as store:
        assert look(store, 1) is None
        assert key(1) not in store
        assert store.put(canonical(1), 0.0)
        assert key(1) in store
        found = look(store, 1)
        assert (found.kind, found.tier, found.nbytes) == (HitKind.EXACT, Tier.HOST, ENTRY_BYTES)
        got = store.fetch(found.record.key)
        assert same(got, canonical(1))
        store.release(found.record.key)
        with pytest.raises(InternalError):
            store.release(found.record.key)
        assert store.stats().hits[HitKind.MISS] == store.stats().hits[HitKind.EXACT] == 1


def test_without_a_disk_what_leaves_host_memory_is_gone():
    with opened() as store:
        for chunk in range(6):
            assert store.put(canonical(chunk), float(chunk))
        assert store.fetch(key(0)) is Fetch.MISSING
        stats = store.stats()
        assert (stats.entries, stats.host_bytes) == (4, 4 * ENTRY_BYTES)
        store.check()
        assert stats.evictions[Tier.HOST] == 2


def test_pinned_entries_fill_the_store():
    with opened() as store:
        for chunk in range(4):
            store.put(canonical(chunk), 0.0)
            assert store.fetch(key(chunk)) is not Fetch.MISSING
        assert not store.put(canonical(9), 99.0)
        store.release(key(2))
        assert store.put(canonical(9), 99.0)
        assert store.fetch(key(2)) is Fetch.MISSING


def test_kv_that_is_not_finite_is_not_kept(caplog):
    bad = canonical(1)
    bad.block.values[0, 0, 0, 0] = float("nan")
    with opened() as store:
        assert not store.put(bad, 0.0)
        assert look(store, 1) is None
    assert "NaN or infinity" in caplog.text


def test_bf16_is_the_default_and_its_error_is_told():
    assert ChunkStoreSettings(host_bytes_max=1).encoding is KvEncoding.BF16
    with opened(encoding=KvEncoding.INT8) as store:
        store.put(canonical(1), 0.0)
        assert look(store, 1).nbytes < ENTRY_BYTES
        got = store.fetch(key(1))
        assert 0.0 < got.error < 0.02
        assert got.block.keys.dtype is torch.float32


# --- disk ------------------------------------------------------------------------------------


def test_an_entry_evicted_from_host_memory_is_loaded_from_disk(tmp_path):
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        for chunk in range(6):
            assert store.put(canonical(chunk), float(chunk))
        store.flush()
        found = look(store, 0, now_s=6.0)
        assert found.tier is Tier.DISK
        assert store.fetch(key(0)) is Fetch.LOADING
        bell.wait()
        [loaded] = store.completed()
        assert (loaded.key, loaded.nbytes) == (key(0), ENTRY_BYTES)
        assert same(loaded.entry, canonical(0))
        assert store.completed() == ()
        assert look(store, 0, now_s=6.0).tier is Tier.HOST
        store.release(key(0))
        store.check()


def probes_of(*chunks):
    return [keys_of(chunk).probes(0) for chunk in chunks]


@contextmanager
def gated_reads(monkeypatch):
    """Yield the keys that are read, in order, and what lets one read after another end."""
    begun, gate = queue.SimpleQueue(), threading.Semaphore(0)
    read = ChunkFiles.read

    def gated(self, name):
        begun.put(name)
        assert gate.acquire(timeout=30), "the read was never let go"
        return read(self, name)

    monkeypatch.setattr(ChunkFiles, "read", gated)
    try:
        yield begun, gate
    finally:
        gate.release(100)  # what still reads


def test_what_may_be_wanted_is_read_one_by_one_and_counts_as_no_use(tmp_path, monkeypatch):
    filled(tmp_path, 1, 2)
    bell = Bell()
    with (
        opened(tmp_path, wake=bell, host_bytes_max=8 * ENTRY_BYTES) as store,
        gated_reads(monkeypatch) as (begun, gate),
    ):
        before = store.stats().hits
        store.hold(7, probes_of(1, 2, 3))
        assert begun.get(timeout=30) == key(1)
        assert begun.empty(), "the other thread is left to loads that a prompt waits for"
        gate.release(2)
        bell.wait()
        assert begun.get(timeout=30) == key(2)
        bell.wait()
        assert store.completed() == (), "no prompt waits for them"
        assert store.stats().hits == before
        assert look(store, 1).tier is look(store, 2).tier is Tier.HOST
        store.fetch(key(1))
        assert store.leave(7) == {key(1), key(2)}
        assert store.leave(7) == frozenset()
        assert (store.stats().used_ahead, store.stats().wasted_ahead) == (1, 0)
        store.check()


def test_a_load_that_a_prompt_waits_for_goes_before_those_that_none_does(tmp_path, monkeypatch):
    """Neither the threads, nor the bound of loads, nor host memory are taken by the latter."""
    filled(tmp_path, *range(1, 9))
    bell = Bell()
    with (
        opened(
            tmp_path, wake=bell, host_bytes_max=8 * ENTRY_BYTES, loads_max=2, loader_threads=1
        ) as store,
        gated_reads(monkeypatch) as (begun, gate),
    ):
        store.hold(7, probes_of(1, 2))
        assert begun.get(timeout=30) == key(1)
        assert store.fetch(key(3)) is store.fetch(key(4)) is Fetch.LOADING
        gate.release(4)
        for _ in range(4):
            bell.wait()
        order = [begun.get(timeout=30) for _ in range(3)]
        assert order == [key(3), key(4), key(2)]
        assert {loaded.key for loaded in store.completed()} == {key(3), key(4)}
        store.check()


def test_a_fetch_of_what_is_read_ahead_joins_it(tmp_path, monkeypatch):
    filled(tmp_path, 1)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store, gated_reads(monkeypatch) as (begun, gate):
        store.hold(7, probes_of(1))
        assert begun.get(timeout=30) == key(1)
        assert store.fetch(key(1)) is Fetch.LOADING
        gate.release()
        bell.wait()
        assert [loaded.key for loaded in store.completed()] == [key(1)]
        assert begun.empty()
        assert store.stats().used_ahead == 1


def test_a_prompt_that_does_not_come_gives_its_reads_back(tmp_path, monkeypatch):
    filled(tmp_path, 1, 2, 3)
    bell = Bell()
    with (
        opened(tmp_path, wake=bell, host_bytes_max=12 * ENTRY_BYTES) as store,
        gated_reads(monkeypatch) as (begun, gate),
    ):
        store.hold(7, probes_of(1, 2))
        assert begun.get(timeout=30) == key(1)
        store.hold(7, probes_of(3))  # its search has found something else
        assert store.leave(7) == {key(1)}
        gate.release()
        bell.wait()
        store.hold(8, probes_of(3))
        assert begun.get(timeout=30) == key(3), "nothing is read for the prompt that is gone"
        assert store.stats().ahead_bytes == ENTRY_BYTES


def test_reads_ahead_hold_a_share_of_host_memory_and_drive_out_nothing_hotter(tmp_path):
    """Eight fit. What is used more stays; what is held makes room for what a prompt waits for."""
    filled(tmp_path, *range(1, 17))
    bell = Bell()
    with opened(tmp_path, wake=bell, host_bytes_max=8 * ENTRY_BYTES, half_life_s=1.0) as store:
        for chunk in range(1, 8):
            for _ in range(3):
                look(store, chunk, now_s=9.0)
            store.fetch(key(chunk))
            bell.wait()
            store.release(key(chunk))
        store.completed()
        store.hold(7, probes_of(9, 10, 11))
        bell.wait()
        assert store.stats().ahead_bytes == 2 * ENTRY_BYTES, "a quarter of host memory"
        assert look(store, 9).tier is Tier.HOST
        assert look(store, 10).tier is Tier.DISK, "hotter entries fill the rest"
        for chunk in range(1, 8):  # all of them are in use: 9 makes room
            store.fetch(key(chunk))
        assert store.fetch(key(12)) is Fetch.LOADING
        bell.wait()
        stats = store.stats()
        assert (stats.used_ahead, stats.wasted_ahead) == (0, 1)
        store.check()


def test_a_second_fetch_joins_the_load_and_counts_as_a_pin_of_its_own(tmp_path, monkeypatch):
    filled(tmp_path, 1)
    gate, bell, reads = threading.Event(), Bell(), []
    read = ChunkFiles.read

    def slow(self, name):
        reads.append(name)
        assert gate.wait(30)
        return read(self, name)

    with opened(tmp_path, wake=bell) as store:
        monkeypatch.setattr(ChunkFiles, "read", slow)
        assert store.fetch(key(1)) is store.fetch(key(1)) is Fetch.LOADING
        assert look(store, 1).tier is Tier.DISK
        assert store.completed() == ()
        gate.set()
        bell.wait()
        assert len(store.completed()) == len(reads) == 1
        store.release(key(1))
        store.release(key(1))
        with pytest.raises(InternalError):
            store.release(key(1))


def test_loads_are_bounded_until_they_are_collected(tmp_path):
    filled(tmp_path, 1, 2, 3)
    bell = Bell()
    with opened(tmp_path, wake=bell, loads_max=2) as store:
        answers = [store.fetch(key(chunk)) for chunk in (1, 2, 3)]
        assert answers == [Fetch.LOADING, Fetch.LOADING, Fetch.MISSING]
        bell.wait()
        bell.wait()
        assert store.fetch(key(3)) is Fetch.MISSING
        assert len(store.completed()) == 2
        assert store.fetch(key(3)) is Fetch.LOADING


def test_a_load_without_room_in_host_memory_is_a_miss(tmp_path):
    filled(tmp_path, 1, 2)
    bell = Bell()
    with opened(tmp_path, wake=bell, host_bytes_max=ENTRY_BYTES) as store:
        assert store.fetch(key(1)) is Fetch.LOADING
        assert store.fetch(key(2)) is Fetch.MISSING
        bell.wait()
        assert store.fetch(key(2)) is Fetch.MISSING
        store.release(key(1))
        assert store.fetch(key(2)) is Fetch.LOADING


def test_a_restart_finds_what_was_written(tmp_path):
    filled(tmp_path, 1, 2)
    keys = keys_of(1, 2)
    primed = entry_of(keys.primed_record(1, 2))
    with opened(tmp_path) as store:
        store.put(primed, 0.0)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        assert store.stats().entries == 3
        found = look(store, 1, 2, primed=PrimedWith.PRECEDING)
        assert (found.record, found.tier) == (primed.record, Tier.DISK)
        store.fetch(primed.record.key)
        bell.wait()
        assert same(store.completed()[0].entry, primed)


def test_closing_writes_what_still_waits(tmp_path, monkeypatch):
    gate = threading.Event()
    pack = ChunkFiles.pack

    def slow(self, stored):
        assert gate.wait(30)
        return pack(self, stored)

    monkeypatch.setattr(ChunkFiles, "pack", slow)
    before = set(threading.enumerate())
    store = ChunkStore(settings(tmp_path), "m", Clock())
    for chunk in range(4):
        store.put(canonical(chunk), 0.0)
    assert files_in(tmp_path) == []  # put has waited for nothing
    gate.set()
    store.close()
    assert len(files_in(tmp_path)) == 4
    assert set(threading.enumerate()) <= before
    assert store.fetch(key(0)) is not Fetch.MISSING  # host memory stays readable
    assert store.put(canonical(9), 1.0)


def test_a_full_queue_is_counted_and_the_entry_stays_in_host_memory(tmp_path, monkeypatch):
    gate = threading.Event()
    pack = ChunkFiles.pack

    def slow(self, stored):
        assert gate.wait(30)
        return pack(self, stored)

    monkeypatch.setattr(ChunkFiles, "pack", slow)
    with opened(tmp_path, write_queue_bytes_max=ENTRY_BYTES) as store:
        assert store.put(canonical(1), 0.0)
        assert store.put(canonical(2), 0.0)
        assert store.stats().unwritten == 1
        assert look(store, 2).tier is Tier.HOST
        gate.set()
        store.flush()
        assert store.put(canonical(2), 0.0)  # offered again, written after all
        store.flush()
        assert len(files_in(tmp_path)) == 2


def test_a_killed_writer_leaves_no_torn_file(tmp_path):
    """The third file is cut short under its writer's hands, which is then killed."""
    code = (
        "import os, sys, threading\n"
        "from pathlib import Path\n"
        "from tests.unit.kv.test_chunk_store import canonical, settings, Clock\n"
        "from heddle.kv.chunk_store import ChunkStore\n"
        "store = ChunkStore(settings(Path(sys.argv[1])), 'm', Clock())\n"
        "for chunk in (1, 2):\n"
        "    store.put(canonical(chunk), 0.0)\n"
        "    store.flush()\n"
        "def cut(descriptor):\n"
        "    os.ftruncate(descriptor, 500)\n"
        "    print('cut', flush=True)\n"
        "    threading.Event().wait()\n"
        "os.fsync = cut\n"
        "store.put(canonical(3), 0.0)\n"
        "store.flush()\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout.readline() == "cut\n"
        writer.kill()
    assert len(files_in(tmp_path)) == 3
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        assert store.stats().entries == len(files_in(tmp_path)) == 2
        for chunk in (1, 2):
            assert store.fetch(key(chunk)) is Fetch.LOADING
            bell.wait()
            assert same(store.completed()[0].entry, canonical(chunk))
        assert look(store, 3) is None


def test_the_disk_budget_holds_and_the_coldest_files_go(tmp_path):
    with opened(tmp_path, disk_bytes_max=3 * FILE_BYTES) as store:
        for chunk in range(8):
            store.put(canonical(chunk), float(chunk))
            store.flush()
        stats = store.stats()
        sizes = [path.stat().st_size for path in files_in(tmp_path)]
        assert sum(sizes) == stats.disk_bytes <= 3 * FILE_BYTES
        assert stats.evictions[Tier.DISK] == 8 - len(sizes) > 0
        assert not any(key(0).hex() in path.name for path in files_in(tmp_path))


def test_after_a_restart_the_oldest_files_go_first(tmp_path):
    filled(tmp_path, 1, 2, 3)
    for age, chunk in enumerate((3, 1, 2)):
        [path] = (path for path in files_in(tmp_path) if key(chunk).hex() in path.name)
        os.utime(path, (1e9 - age, 1e9 - age))
    held = sum(path.stat().st_size for path in files_in(tmp_path))
    with opened(tmp_path, disk_bytes_max=held) as store:
        store.put(canonical(4), 0.0)
        store.flush()
        assert {chunk for chunk in range(1, 5) if key(chunk) in store} == {1, 3, 4}


def test_a_smaller_budget_after_a_restart_removes_the_excess(tmp_path, caplog):
    filled(tmp_path, 1, 2, 3)
    with opened(tmp_path, disk_bytes_max=FILE_BYTES) as store:
        assert store.stats().entries == len(files_in(tmp_path)) == 1
    assert "2 files of chunk KV exceed disk_bytes_max: removed" in caplog.text


def test_what_another_process_wrote_meanwhile_is_left_where_no_budget_is_named(tmp_path, caplog):
    filled(tmp_path, 1, 2, 3)
    with opened(tmp_path, disk_bytes_max=FILE_BYTES, removes_excess=False) as store:
        assert store.stats().entries == 1
        assert len(files_in(tmp_path)) == 3
    assert "2 files of chunk KV exceed disk_bytes_max: not used here" in caplog.text


@pytest.mark.parametrize("changed", ["neighbours", "place", "form"])
def test_a_file_that_another_process_has_replaced_is_a_miss_and_known_from_then_on(
    tmp_path, changed
):
    """Its keys lie at other positions: rotated from where the old ones lay, they were garbage."""
    near, far = keys_of(1, 3), keys_of(1, 2, 3)
    encoding = KvEncoding.AS_COMPUTED
    if changed == "neighbours":
        old, new = near.primed_record(1, 6), far.primed_record(2, 10)
    elif changed == "place":
        old, new = near.approximate_record(1, 6), far.approximate_record(2, 10)
    else:
        old = new = near.primed_record(1, 6)
        encoding = KvEncoding.INT8
    assert old.key == new.key
    with opened(tmp_path) as earlier:
        earlier.put(entry_of(old), 0.0)
    bell = Bell()
    with opened(tmp_path, wake=bell) as here:
        with opened(tmp_path / "there", encoding=encoding) as there:
            there.put(entry_of(new), 0.0)
        [written] = (tmp_path / "there").glob("*/*")
        os.replace(written, tmp_path / written.parent.name / written.name)
        assert here.fetch(old.key) is Fetch.LOADING
        bell.wait()
        [loaded] = here.completed()
        assert loaded.entry is None
        here.release(old.key)
        here.check()
        assert here.keeps(new)
        assert here.fetch(new.key) is Fetch.LOADING
        bell.wait()
        [loaded] = here.completed()
        assert loaded.entry.record == new
        here.check()


def test_a_fetch_gives_no_kv_of_another_record_than_the_one_that_was_looked_up(tmp_path):
    """Rotated from where the other one's keys lie, it would be garbage."""
    old, new = keys_of(1, 3).primed_record(1, 6), keys_of(1, 2, 3).primed_record(2, 10)
    with opened(tmp_path) as earlier:
        earlier.put(entry_of(old), 0.0)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        found = look(store, 5, 3, primed=PrimedWith.PRECEDING)
        assert found.record == old
        with opened(tmp_path) as other_process:
            other_process.put(entry_of(new), 0.0)
        store.fetch(old.key)
        bell.wait()  # the file is another's by now, and known as such
        store.completed()
        store.release(old.key)
        assert store.fetch(old.key, found.record) is Fetch.MISSING
        assert store.fetch(new.key, new) is Fetch.LOADING
        bell.wait()
        store.completed()
        assert store.fetch(old.key, found.record) is Fetch.MISSING, "nor from host memory"
        assert store.fetch(new.key, new).record == new
        assert store.stats().pins == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "foreign", "gone"])
def test_a_bad_file_is_a_miss_never_garbage(tmp_path, damage, caplog):
    filled(tmp_path, 1)
    [path] = files_in(tmp_path)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        content = bytearray(path.read_bytes())
        if damage == "cut":
            path.write_bytes(content[:-9])
        elif damage == "flip":
            content[-9] ^= 1
            path.write_bytes(content)
        elif damage == "foreign":
            path.write_bytes(content.replace(b'"fingerprint":"m"', b'"fingerprint":"n"'))
        else:
            path.unlink()
        assert look(store, 1).tier is Tier.DISK
        assert store.fetch(key(1)) is Fetch.LOADING
        bell.wait()
        [loaded] = store.completed()
        assert loaded.entry is None
        assert look(store, 1) is None
        assert files_in(tmp_path) == []
        assert store.stats().failed_loads == 1
        store.release(key(1))
        assert store.put(canonical(1), 0.0)  # computed again, it is kept again
    assert len(files_in(tmp_path)) == 1
    assert caplog.records


def test_another_model_finds_nothing_and_leaves_everything(tmp_path):
    filled(tmp_path, 1)
    with opened(tmp_path, fingerprint="n") as store:
        assert store.stats().entries == 0
        store.put(canonical(2), 0.0)
    with opened(tmp_path) as store:
        assert store.stats().entries == 1


def test_a_folder_that_can_not_be_made_turns_the_disk_tier_off(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with opened(blocked) as store:
        assert store.put(canonical(1), 0.0)
        assert store.fetch(key(1)) is not Fetch.MISSING
        assert "has no disk tier" in store.notes[0]
        assert store.forget([1]) == 1
    assert "has no disk tier" in caplog.text


def test_a_read_only_folder_is_read_and_not_written(tmp_path, monkeypatch, caplog):
    filled(tmp_path, 1)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        assert store.put(canonical(2), 0.0)
        store.flush()
        assert len(files_in(tmp_path)) == 1
        assert store.fetch(key(1)) is Fetch.LOADING
        bell.wait()
        assert same(store.completed()[0].entry, canonical(1))
    assert "is not written to disk" in caplog.text


def test_a_disk_that_fills_up_ends_the_writing_and_nothing_else(tmp_path, monkeypatch, caplog):
    filled(tmp_path, 1)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        for chunk in (2, 3):
            assert store.put(canonical(chunk), 0.0)
            store.flush()
        assert store.stats().unwritten == 1
        assert look(store, 2).tier is look(store, 3).tier is Tier.HOST
        assert len(files_in(tmp_path)) == 1
        bell.wait()  # the failed write is reported
        assert "No space left" in store.notes[0]
        assert store.fetch(key(1)) is Fetch.LOADING
        bell.wait()
        assert store.completed()[0].entry is not None
    lines = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(lines) == 1
    assert "No space left" in lines[0].getMessage()


def test_a_disk_that_has_failed_is_tried_again_once_in_a_while(tmp_path, monkeypatch, caplog):
    failures = []

    def full(descriptor):
        failures.append(descriptor)
        raise OSError(28, "No space left on device")

    def put(chunk, now_s):
        store.put(canonical(chunk), now_s)
        store.flush()
        return len(failures)

    with opened(tmp_path) as store:
        monkeypatch.setattr(os, "fsync", full)
        assert put(1, 100.0) == 1
        assert [put(2, 110.0), put(3, 110.0 + DISK_RETRY_S - 1)] == [1, 1], "not yet"
        assert [put(4, 110.0 + DISK_RETRY_S), put(5, 110.0 + DISK_RETRY_S)] == [2, 2], "one entry"
        monkeypatch.undo()
        assert put(6, 180.0) == 2
        assert (store.notes != (), files_in(tmp_path)) == (True, [])
        caplog.set_level(logging.INFO, logger="heddle")
        store.put(canonical(7), 180.0 + DISK_RETRY_S)
        store.flush()
        assert store.notes == ()
        assert "is written to disk again" in caplog.text
        put(8, 180.0 + DISK_RETRY_S)
        assert len(files_in(tmp_path)) == 2
        store.check()


def test_a_store_without_a_disk_tier_misses_nothing():
    with opened() as store:
        assert store.notes == ()


def test_the_store_tells_its_state(tmp_path, monkeypatch):
    filled(tmp_path, 1, 2)
    [gone] = tmp_path.glob(f"*/{key(2).hex()}*")
    bell = Bell()
    with opened(tmp_path, wake=bell, host_bytes_max=2 * ENTRY_BYTES) as store:
        gone.unlink()
        for chunk in (1, 2):
            store.fetch(key(chunk))
            bell.wait()
        store.release(key(1))
        monkeypatch.setattr(ChunkWriter, "offer", lambda *_: False)
        for chunk in (3, 4):
            store.put(canonical(chunk), 1e6)
        assert store.gauges() == {
            "chunk_kv_entries": 3,
            "chunk_kv_host_bytes": 2 * ENTRY_BYTES,
            "chunk_kv_disk_bytes": files_in(tmp_path)[0].stat().st_size,
            "chunk_kv_host_evicted": 1,
            "chunk_kv_disk_evicted": 0,
            "chunk_kv_loaded": 1,
            "chunk_kv_not_loaded": 1,
            "chunk_kv_unwritten": 2,
            "chunk_kv_tokens": 3 * TOKENS,
            "chunk_kv_disk_only": 1,
            "chunk_kv_disk_only_s": 0.0,  # on this clock reads take no time
            "chunk_kv_ahead_used": 0,
            "chunk_kv_ahead_wasted": 0,
        }


def test_entries_of_another_process_are_taken_in_on_refresh(tmp_path):
    with opened(tmp_path) as store, opened(tmp_path) as other:
        other.put(canonical(1), 0.0)
        other.flush()
        assert look(store, 1) is None
        store.refresh()
        assert look(store, 1).tier is Tier.DISK
        store.refresh()
        assert store.stats().entries == 1


# --- forgetting ------------------------------------------------------------------------------


def test_an_entry_of_another_process_is_taken_in_when_it_would_be_made_again(tmp_path):
    with opened(tmp_path) as here, opened(tmp_path) as there:
        there.put(canonical(1), 0.0)
        there.flush()
        assert here.lookup(keys_of(1).probes(0), 0.0) is None
        assert here.keeps(canonical(1).record)
        assert here.lookup(keys_of(1).probes(0), 0.0) is not None
        assert here.keeps(canonical(1).record)
        assert here.stats().entries == 1
        assert not here.keeps(canonical(2).record)


def test_a_bad_file_is_not_taken_in(tmp_path, caplog):
    with opened(tmp_path) as here:
        [folder] = tmp_path.iterdir()
        path = folder / f"{key(1).hex()}.kv.safetensors"
        path.write_bytes(b"torn")
        assert not here.keeps(canonical(1).record)
        assert not path.exists()
        assert "is removed" in caplog.text


def test_a_forgotten_chunk_is_gone_from_memory_disk_and_primed_neighbours(tmp_path):
    keys = keys_of(1, 2, 3)
    primed = entry_of(keys.primed_record(2, 2))
    behind = entry_of(keys.exact_record(1, 6))
    with opened(tmp_path) as store:
        for entry in (canonical(1), primed, behind, canonical(3)):
            assert store.put(entry, 0.0)
        store.flush()
        assert store.forget([1]) == 3
        assert [p.name[:64] for p in files_in(tmp_path)] == [key(3).hex()]
        assert look(store, 1) is None
        assert look(store, 1, 2, 3, primed=PrimedWith.PRECEDING).record == canonical(3).record
        store.check()
    with opened(tmp_path) as store:
        assert store.stats().entries == 1


def behind_primed(neighbour):
    """Name KV of chunk 2 that has attended chunk 1's KV, primed with a neighbour."""
    primed = keys_of(neighbour, 1).primed_record(1, 6)
    return keys_of(1, 2).approximate_record(1, 6, {0: primed})


def test_kv_stored_again_is_forgotten_with_what_the_new_tensors_have_seen(tmp_path):
    old, new = behind_primed(11), behind_primed(12)
    assert old == new, "sources tell no records apart"
    with opened(tmp_path, host_bytes_max=2 * ENTRY_BYTES) as store:
        assert store.put(entry_of(old), 0.0)
        store.flush()
        for hotter in (21, 22):
            store.put(canonical(hotter), 1.0)
        store.flush()
        assert store.put(entry_of(new), 1000.0)
        found = look(store, 1, 2, now_s=1000.0)
        assert (found.tier, set(found.record.sources)) == (Tier.HOST, {2, 1, 11, 12})
        store.check()
        assert store.forget([12]) == 1
        assert look(store, 1, 2, now_s=1000.0) is None
        assert store.forget([11, 1, 2]) == 0
        store.check()


def test_what_another_process_s_equal_kv_has_seen_is_known_before_it_is_used(tmp_path):
    old, new = behind_primed(11), behind_primed(12)
    with opened(tmp_path) as earlier:
        earlier.put(entry_of(old), 0.0)
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        with opened(tmp_path / "there") as there:
            there.put(entry_of(new), 0.0)
        [written] = (tmp_path / "there").glob("*/*")
        os.replace(written, tmp_path / written.parent.name / written.name)
        assert store.fetch(old.key) is Fetch.LOADING
        bell.wait()
        [loaded] = store.completed()
        assert loaded.entry is None, "the prompt would hand its KV on without its sources"
        assert store.forget([12]) == 1


def test_what_is_forgotten_while_it_is_loaded_does_not_come_back(tmp_path, monkeypatch):
    filled(tmp_path, 1)
    gate, bell = threading.Event(), Bell()
    read = ChunkFiles.read

    def slow(self, name):
        stored = read(self, name)
        assert gate.wait(30)
        return stored

    with opened(tmp_path, wake=bell) as store:
        monkeypatch.setattr(ChunkFiles, "read", slow)
        assert store.fetch(key(1)) is Fetch.LOADING
        assert store.forget([1]) == 1
        gate.set()
        bell.wait()
        assert store.completed()[0].entry is None
        assert look(store, 1) is None
        assert store.stats().host_bytes == 0
        store.release(key(1))


def test_what_is_forgotten_while_it_is_written_leaves_no_file(tmp_path, monkeypatch):
    gate, packed = threading.Event(), threading.Event()
    publish_to = ChunkFiles.staged

    @contextmanager
    def slow(self, name, content):
        with publish_to(self, name, content) as staged:
            packed.set()
            assert gate.wait(30)
            yield staged

    monkeypatch.setattr(ChunkFiles, "staged", slow)
    with opened(tmp_path) as store:
        store.put(canonical(1), 0.0)
        assert packed.wait(30)
        assert store.forget([1]) == 1
        gate.set()
        store.flush()
        assert files_in(tmp_path) == []
        stats = store.stats()
        assert (stats.entries, stats.disk_bytes, stats.unwritten) == (0, 0, 0)


def test_what_was_primed_anew_takes_the_place_of_the_old(tmp_path):
    old, new = (entry_of(keys_of(*chunks).primed_record(1, 2)) for chunks in ((1, 5), (2, 5)))
    bell = Bell()
    with opened(tmp_path, wake=bell) as store:
        for entry in (old, new):
            assert store.put(entry, 0.0)
            store.flush()
            store.check()
            assert same(store.fetch(entry.record.key), entry)
            store.release(entry.record.key)
        assert len(files_in(tmp_path)) == 1
        assert (store.keeps(old.record), store.keeps(new.record)) == (False, True)
        assert store.put(old, 0.0)  # too much for host memory alone
        for chunk in range(10, 14):
            store.put(canonical(chunk), 1.0)
        store.flush()
        store.check()
    with opened(tmp_path) as store:
        assert store.keeps(old.record)


def test_who_stores_an_entry_is_told_when_it_is_on_disk(tmp_path, monkeypatch):
    told = []
    with opened(tmp_path) as store:
        store.put(canonical(1), 0.0, told.append)
        store.flush()
        assert told.pop() is None
        assert store.keeps(canonical(1).record)
        store.put(canonical(1), 0.0, told.append)  # it is there already
        assert told.pop() is None

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        store.put(canonical(2), 0.0, told.append)
        store.flush()
        assert "No space left" in told.pop()
        store.put(canonical(3), 0.0, told.append)  # the disk isn't tried again
        assert "No space left" in told.pop()
        assert told == []


def test_who_stores_an_entry_is_told_why_it_is_not_on_disk(tmp_path, monkeypatch):
    told = []
    with opened() as store:
        store.put(canonical(1), 0.0, told.append)
    assert "no disk tier" in told.pop()
    with opened(tmp_path, disk_bytes_max=FILE_BYTES // 2) as store:
        store.put(canonical(1), 0.0, told.append)
        store.flush()
        assert f"({FILE_BYTES // 2}) is full" in told.pop()
        broken = replace(
            canonical(2), block=KvBlock(*(torch.full((2, 3, TOKENS, 8), torch.nan),) * 2)
        )
        assert not store.put(broken, 0.0, told.append)
        assert "NaN" in told.pop()
    gate = threading.Event()
    pack = ChunkFiles.pack

    def slow(self, stored):
        assert gate.wait(30)
        return pack(self, stored)

    monkeypatch.setattr(ChunkFiles, "pack", slow)
    with opened(tmp_path, write_queue_bytes_max=ENTRY_BYTES) as store:
        store.put(canonical(1), 0.0, told.append)
        store.put(canonical(2), 0.0, told.append)
        assert "write_queue_bytes_max" in told.pop()
        store.forget([1])
        gate.set()
        store.flush()
        assert told == [None]  # forgotten meanwhile: nothing is missing


def test_files_of_a_process_with_a_larger_budget_are_left_to_it(tmp_path, caplog):
    with opened(tmp_path, disk_bytes_max=FILE_BYTES) as store:
        filled(tmp_path, 1, 2, 3)
        store.refresh()
        assert store.stats().entries == 1
        assert len(files_in(tmp_path)) == 3
    assert "2 files of chunk KV exceed disk_bytes_max: not used here" in caplog.text


def test_another_process_s_entry_of_a_forgotten_chunk_is_removed_too(tmp_path):
    with opened(tmp_path) as store:
        filled(tmp_path, 1)
        assert store.forget([1]) == 1
        assert files_in(tmp_path) == []


def test_a_forgotten_chunk_stored_anew_meanwhile_keeps_its_new_file(tmp_path):
    with opened(tmp_path) as store:
        store.put(canonical(1), 0.0)
        store.flush()
        remove = ChunkFiles.remove

        def store_anew():
            store.put(canonical(1), 1.0)
            store.flush()

        writer = threading.Thread(target=store_anew)

        def remove_late(files, keys):
            writer.start()
            writer.join(0.2)  # all the time it needs, if nothing holds it up
            remove(files, keys)

        with patch.object(ChunkFiles, "remove", remove_late):
            assert store.forget([1]) == 1
        writer.join()
        store.flush()
        on_disk = sum(path.stat().st_size for path in files_in(tmp_path))
        assert on_disk == store.stats().disk_bytes > 0


def test_a_file_that_goes_while_it_is_taken_in_is_not_booked(tmp_path):
    filled(tmp_path, 1)
    with opened(tmp_path) as store:
        store.forget([1])
        filled(tmp_path, 1)
        scan = ChunkFiles.scan

        def scan_and_lose(files, known):
            for file in scan(files, known):
                for path in files_in(tmp_path):
                    path.unlink()
                yield file

        with patch.object(ChunkFiles, "scan", scan_and_lose):
            store.refresh()
        assert store.stats().disk_bytes == 0


# --- threads and settings --------------------------------------------------------------------


def test_many_threads_at_once_keep_the_books(tmp_path):
    bell = Bell()
    faults: list[BaseException] = []

    def client(seed, store):
        try:
            for step in range(60):
                chunk = (seed * 7 + step * 3) % 9
                found = look(store, chunk, now_s=float(step))
                if found is None:
                    store.put(canonical(chunk), float(step))
                    continue
                got = store.fetch(found.record.key)
                if isinstance(got, ChunkEntry):
                    assert same(got, canonical(chunk))
                if got is not Fetch.MISSING:
                    store.release(found.record.key)
                for loaded in store.completed():
                    assert loaded.entry is None or same(loaded.entry, entry_of(loaded.entry.record))
                if step % 20 == 19:
                    store.forget([chunk])
        except BaseException as fault:
            faults.append(fault)

    with opened(tmp_path, wake=bell, disk_bytes_max=5 * FILE_BYTES) as store:
        threads = [threading.Thread(target=client, args=(i, store)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        store.flush()
        store.check()
        stats = store.stats()
        assert sum(stats.hits.values()) == 4 * 60
        assert not faults
    on_disk = sum(path.stat().st_size for path in files_in(tmp_path))
    assert on_disk == store.stats().disk_bytes <= 5 * FILE_BYTES


def test_the_books_are_right_while_an_entry_is_loaded(tmp_path):
    filled(tmp_path, 1)
    with opened(tmp_path, load_bytes_per_s=ENTRY_BYTES / 10.0) as store:
        found = look(store, 1)
        assert store.fetch(found.record.key) is Fetch.LOADING
        store.check()
        store.release(found.record.key)


def test_a_prediction_counts_bytes_and_what_is_fetched_before(tmp_path):
    filled(tmp_path, 1, 2, 3)
    with opened(tmp_path, load_bytes_per_s=ENTRY_BYTES / 10.0) as store:
        store.put(canonical(4), 0.0)
        found = [look(store, chunk) for chunk in (4, 1, 2, 1)]
        seconds = store.predicted_load_s(found)
        assert seconds == pytest.approx([0.0, 10.0, 20.0, 10.0], rel=0.01)
        assert seconds[0] == 0.0, "it is in host memory"
        assert seconds[1] == seconds[3] < seconds[2], "one load serves both"


def test_a_load_under_way_is_as_far_off_as_it_was_foretold(tmp_path):
    filled(tmp_path, 1, 2)
    with opened(tmp_path, loader_threads=1, load_bytes_per_s=ENTRY_BYTES / 10.0) as store:
        one, two = look(store, 1), look(store, 2)
        foretold = store.predicted_load_s([one, two])
        assert store.fetch(one.record.key) is Fetch.LOADING
        assert store.predicted_load_s([two, one]) == pytest.approx(foretold[::-1])


class ReadClock(Clock):
    """A clock on which every read of a chunk takes `read_s`."""

    def __init__(self, monkeypatch, read_s):
        self.time_s, self.read_s = 0.0, read_s
        self.reads = []
        own, lock = ChunkFiles.read, threading.Lock()

        def read(files, key):
            with lock:
                self.time_s += self.read_s
            self.reads.append(key)
            return own(files, key)

        monkeypatch.setattr(ChunkFiles, "read", read)

    def now_s(self):
        return self.time_s


def test_a_store_that_opens_finds_out_how_fast_its_disk_is(tmp_path, monkeypatch):
    filled(tmp_path, 1, 2, 3, 4)
    clock = ReadClock(monkeypatch, read_s=3.0)
    store = ChunkStore(settings(tmp_path), "m", clock)
    foretold = store.predicted_load_s([look(store, chunk) for chunk in (1, 2, 3, 4)])
    stats = store.stats()
    store.close()
    assert len(clock.reads) == 2, "as many as are read at once"
    assert foretold == pytest.approx([3.0, 6.0, 9.0, 12.0], rel=0.01)
    assert (stats.loads, stats.host_bytes) == (0, 0)


def test_after_a_while_without_a_load_the_first_chunk_asked_for_is_loaded(tmp_path, monkeypatch):
    """A disk that was slow when it was measured may be fast now; the caller doesn't wait."""
    filled(tmp_path, 1, 2, 3)
    clock, bell = ReadClock(monkeypatch, read_s=3.0), Bell()
    store = ChunkStore(settings(tmp_path), "m", clock)
    store.subscribe(bell)
    found = [look(store, chunk) for chunk in (2, 3)]
    store.predicted_load_s(found)
    assert store.stats().loads == 0, "it was measured a moment ago"
    clock.time_s, clock.read_s = 1000.0, 0.001
    slow = store.predicted_load_s(found)
    bell.wait()
    [loaded] = store.completed()
    assert loaded.key == key(2)
    fast = store.predicted_load_s(found)
    store.check()
    store.close()
    assert slow[1] > slow[0] > 2.0
    assert fast == pytest.approx([0.0, 0.001], rel=0.01)
    assert store.stats().loads == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"host_bytes_max": 0},
        {"half_life_s": 0.0},
        {"loader_threads": 0},
        {"loads_max": 0},
        {"load_bytes_per_s": 0.0},
        {"directory": Path("somewhere"), "disk_bytes_max": 0},
    ],
)
def test_impossible_settings_name_the_field(changes):
    with pytest.raises(ConfigError, match=list(changes)[-1]):
        settings(**changes)
