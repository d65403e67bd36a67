"""A file is read back bit for bit, or it is a miss: torn, corrupt, foreign and old ones."""

import fcntl
import logging
import os
from pathlib import Path

import pytest
import torch

from heddle.kv.chunk_entry import ChunkEntry, StoredChunk
from heddle.kv.chunk_record import ChunkRecord, ChunkVariant, digest_of
from heddle.kv.disk import chunk_header
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.kv_encoding import KvEncoding
from heddle.kv.page_store import KvBlock


def stored(name="a", encoding=KvEncoding.BF16, seed=0):
    rng = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, 2, 2, 6, 4, generator=rng)
    record = ChunkRecord(
        key=digest_of(name.encode()),
        chunk=digest_of(b"chunk", name.encode()),
        tokens=6,
        base=17,
        variant=ChunkVariant.PRIMED,
        context=(digest_of(b"one"), digest_of(b"two")),
        sources=(5, 1, 2),
    )
    return StoredChunk.of(ChunkEntry(record, KvBlock(keys, values)), encoding)


def written(tmp_path, *chunks, fingerprint="m"):
    files = ChunkFiles(tmp_path, fingerprint)
    assert files.open()
    for chunk in chunks:
        with files.staged(chunk.record.key, files.pack(chunk)) as staged:
            files.publish(staged, chunk.record.key)
    files.sync()
    return files


def scan(files):
    return list(files.scan(()))


def only_file(files):
    [path] = files.folder.iterdir()
    return path


@pytest.mark.parametrize("encoding", list(KvEncoding))
def test_an_entry_is_read_back_bit_for_bit(tmp_path, encoding):
    chunk = stored(encoding=encoding)
    files = written(tmp_path, chunk)
    read = files.read(chunk.record.key)
    assert read.record == chunk.record
    assert read.record.sources == chunk.record.sources
    assert (read.kv.dtype, read.kv.error) == (chunk.kv.dtype, chunk.kv.error)
    assert read.kv.tensors.keys() == chunk.kv.tensors.keys()
    for name, tensor in chunk.kv.tensors.items():
        assert torch.equal(read.kv.tensors[name], tensor)
    [file] = scan(files)
    size = only_file(files).stat().st_size
    assert (file.record, file.nbytes, file.file_bytes) == (chunk.record, chunk.kv.nbytes, size)


def test_no_single_flipped_byte_passes(tmp_path, caplog):
    chunk = stored()
    files = written(tmp_path, chunk)
    path = only_file(files)
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        assert files.read(chunk.record.key) is None, f"byte {place}"
        assert not path.exists(), f"byte {place}"
    assert "is removed" in caplog.text


def test_every_truncated_file_is_a_miss_and_removed(tmp_path):
    chunk = stored()
    files = written(tmp_path, chunk)
    path = only_file(files)
    content = path.read_bytes()
    for length in [0, 4, 8, 20, len(content) // 2, len(content) - 1]:
        for look in (lambda: files.read(chunk.record.key), lambda: scan(files)):
            path.write_bytes(content[:length])
            assert not look()
            assert not path.exists()


def test_a_header_of_absurd_length_is_not_read(tmp_path):
    chunk = stored()
    files = written(tmp_path, chunk)
    path = only_file(files)
    path.write_bytes(b"\xff" * 7 + b"\x7f" + path.read_bytes()[8:])
    assert scan(files) == []
    assert not path.exists()


def test_a_file_of_another_model_or_layout_or_name_is_a_miss(tmp_path, monkeypatch):
    chunk = stored()
    theirs = written(tmp_path, chunk, fingerprint="other")
    ours = written(tmp_path)
    assert ours.folder != theirs.folder
    name = only_file(theirs).name

    def refused():
        path = ours.folder / name
        assert ours.read(chunk.record.key) is None
        assert not path.exists()

    (ours.folder / name).write_bytes(only_file(theirs).read_bytes())
    refused()
    assert theirs.read(chunk.record.key) is not None  # their own file is left alone

    (ours.folder / name).write_bytes(ours.pack(stored("b")))
    refused()

    with monkeypatch.context() as patch:
        patch.setattr(chunk_header, "LAYOUT", "0")
        old = ours.pack(chunk)
    (ours.folder / name).write_bytes(old)
    refused()


def test_a_missing_file_is_a_miss(tmp_path, caplog):
    files = written(tmp_path)
    assert files.read(b"k") is None
    assert "is not used" in caplog.text


def test_a_disk_that_stumbles_loses_no_file(tmp_path, monkeypatch):
    chunk = stored()
    files = written(tmp_path, chunk)

    def refuse(path):
        raise OSError(24, "Too many open files", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert files.read(chunk.record.key) is None
    assert files.read(chunk.record.key) is not None


def test_a_write_that_fails_leaves_nothing_and_keeps_the_old_file(tmp_path, monkeypatch):
    chunk = stored(seed=1)
    files = written(tmp_path, chunk)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with (
            pytest.raises(OSError, match="No space"),
            files.staged(chunk.record.key, files.pack(stored(seed=2))),
        ):
            raise AssertionError("it was staged")
    assert torch.equal(files.read(chunk.record.key).kv.tensors["keys"], chunk.kv.tensors["keys"])
    assert len(list(files.folder.iterdir())) == 1


def test_what_dead_writers_left_is_swept_up_and_what_lives_is_not(tmp_path):
    files = written(tmp_path, stored())
    left = [files.folder / f"{'0' * 64}.{writer}.tmp" for writer in ("12", "0ab")]
    for path in left:
        path.write_bytes(b"half a fi")
    chunk = stored("b")
    with files.staged(chunk.record.key, files.pack(chunk)) as staged:
        assert ChunkFiles(tmp_path, "m").open()
        assert [path.exists() for path in (*left, staged)] == [False, False, True]
        files.publish(staged, chunk.record.key)
    assert len(scan(files)) == 2


def test_two_writers_of_one_entry_do_not_meet(tmp_path):
    chunk = stored()
    files = written(tmp_path)
    content = files.pack(chunk)
    with (
        files.staged(chunk.record.key, content) as one,
        files.staged(chunk.record.key, content) as other,
    ):
        for staged in (one, other):
            files.publish(staged, chunk.record.key)
            assert files.read(chunk.record.key) is not None
    assert len(list(files.folder.iterdir())) == 1


def test_a_file_that_is_swept_up_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    files, chunk = written(tmp_path), stored()
    flock, swept = fcntl.flock, []

    def late(file, operation):
        if not swept:
            swept.extend(files.folder.glob("*.tmp"))
            swept[0].unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with files.staged(chunk.record.key, files.pack(chunk)) as staged:
        files.publish(staged, chunk.record.key)
    assert swept
    assert [file.record for file in scan(files)] == [chunk.record]


def test_the_newest_file_is_described_first_and_known_ones_are_skipped(tmp_path):
    chunks = [stored(name) for name in "abc"]
    files = written(tmp_path, *chunks)
    for age, chunk in zip((30, 10, 20), chunks, strict=True):
        path = files.folder / f"{chunk.record.key.hex()}.kv.safetensors"
        os.utime(path, (1e9 - age, 1e9 - age))
    order = [file.record.key for file in scan(files)]
    assert order == [chunks[i].record.key for i in (1, 2, 0)]
    skipped = chunks[1].record.key
    assert [f.record.key for f in files.scan({skipped})] == order[1:]


def test_a_folder_that_can_not_be_made_says_so(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError):
        ChunkFiles(tmp_path / "file", "m").open()


def test_removing_is_quiet_about_what_is_gone_and_loud_about_what_stays(
    tmp_path, monkeypatch, caplog
):
    chunk = stored()
    files = written(tmp_path, chunk)
    files.remove([b"unknown"])
    assert not caplog.records

    def refuse(path, missing_ok):
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        files.remove([chunk.record.key])
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    files.remove([chunk.record.key])
    assert scan(files) == []


def test_a_folder_that_can_not_be_listed_says_so(tmp_path, monkeypatch, caplog):
    files = written(tmp_path, stored())

    def refusing(_path, _pattern):
        raise OSError("Stale file handle")

    monkeypatch.setattr(Path, "glob", refusing)
    assert list(files.scan(known=())) == []
    assert "can't be listed: Stale file handle" in caplog.text
