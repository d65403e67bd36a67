"""Memory, descriptors and shared memory of processes, as /proc has them."""

import mmap
import os
from pathlib import Path

import psutil
import pytest

from tools.attacks.soak.footprint import (
    Footprint,
    memfd_mappings,
    named_blocks,
    pss_bytes,
    without_connections,
)

ROLLUP = """\
00400000-7ffd ---p 00000000 00:00 0    [rollup]
Rss:                1000 kB
Pss:                 600 kB
Pss_Anon:            500 kB
"""


def test_proportional_memory_is_read_and_its_parts_are_not_added() -> None:
    assert pss_bytes(ROLLUP) == 600 * 1024


def test_mappings_of_nameless_memory_are_counted() -> None:
    maps = "7f-80 rw-s 0 00:01 7 /memfd:kv (deleted)\n7f-80 r--p 0 00:01 7 /usr/lib/libc.so\n"
    assert memfd_mappings(maps) == 1


def test_named_blocks_are_files_and_a_machine_may_have_none(tmp_path: Path) -> None:
    (tmp_path / "block").touch()
    (tmp_path / "PostgreSQL.7").touch()
    assert named_blocks(tmp_path) == {"block"}
    assert named_blocks(tmp_path / "none") == frozenset()


def test_a_connection_a_thread_is_no_leak_and_one_more_is() -> None:
    held = ["/c/corpus.sqlite", "/c/corpus.sqlite-wal", "socket"]
    assert list(without_connections(held * 2, threads=2)) == ["socket", "socket"]
    assert sorted(without_connections(held * 2, threads=1)) == sorted([*held, "socket"])


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_what_this_process_opens_is_seen() -> None:
    own = [psutil.Process()]
    before = Footprint.of(own)
    assert before.pss_bytes == before.process_bytes[0] > 0
    descriptor = os.memfd_create("seen")
    try:
        os.truncate(descriptor, mmap.PAGESIZE)
        with mmap.mmap(descriptor, mmap.PAGESIZE):
            after = Footprint.of(own)
    finally:
        os.close(descriptor)
    assert after.memfds == before.memfds + 1
    assert after.fds > before.fds
