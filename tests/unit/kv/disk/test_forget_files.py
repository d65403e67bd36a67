"""What a corpus deletes leaves no file behind, whichever model computed it."""

from pathlib import Path

import pytest

from heddle.core.errors import StorageError
from heddle.kv.chunk_key import PromptKeys
from heddle.kv.disk.chunk_files import ChunkFiles
from heddle.kv.disk.forget_files import forget_files
from tests.unit.kv.test_chunk_store import canonical, entry_of, keys_of, opened


def fill(directory, *entries, fingerprint="m"):
    with opened(directory, fingerprint=fingerprint) as store:
        for entry in entries:
            assert store.put(entry, 0.0)
            store.flush()


def names(directory):
    return sorted(path.name[:64] for path in directory.glob("*/*"))


def test_every_model_s_kv_of_a_chunk_goes_and_all_that_has_seen_it(tmp_path):
    primed, behind = keys_of(1, 3).primed_record(1, 2), keys_of(1, 4).exact_record(1, 6)
    fill(tmp_path, canonical(1), canonical(3), entry_of(primed), entry_of(behind))
    fill(tmp_path, canonical(1), canonical(2), fingerprint="n")
    assert forget_files(tmp_path, [1, 99]) == 4
    assert names(tmp_path) == sorted([canonical(3).record.key.hex(), canonical(2).record.key.hex()])
    assert forget_files(tmp_path, [1]) == 0


def test_nothing_deleted_touches_nothing(tmp_path):
    fill(tmp_path, canonical(1))
    [path] = tmp_path.glob("*/*")
    path.write_bytes(b"torn")
    assert forget_files(tmp_path, []) == 0
    assert forget_files(tmp_path / "nowhere", [1]) == 0
    assert path.exists()


def test_a_file_that_can_not_be_read_may_hold_anything_and_goes(tmp_path):
    fill(tmp_path, canonical(1))
    [path] = tmp_path.glob("*/*")
    path.write_bytes(path.read_bytes()[:-3])
    assert forget_files(tmp_path, [7]) == 1
    assert not path.exists()


def test_a_disk_that_refuses_is_told(tmp_path, monkeypatch):
    fill(tmp_path, canonical(1))

    def refuse(path, missing_ok=False):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StorageError, match=r"KV of a deleted document and can't be removed: .*13"):
        forget_files(tmp_path, [1])


def test_a_file_that_can_not_be_removed_keeps_no_other_one(tmp_path, monkeypatch):
    fill(tmp_path, canonical(1), entry_of(keys_of(1, 3).primed_record(1, 2)), canonical(2))
    unlink, refused = Path.unlink, []

    def refuse_the_first(path, missing_ok=False):
        if not refused or path in refused:
            refused.append(path)
            raise OSError(5, "Input/output error")
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse_the_first)
        with pytest.raises(StorageError, match="then delete the document again"):
            forget_files(tmp_path, [1])
    assert names(tmp_path) == sorted([refused[0].name[:64], canonical(2).record.key.hex()])
    assert forget_files(tmp_path, [1]) == 1


def test_kv_of_a_text_in_no_corpus_stays(tmp_path):
    keys = PromptKeys("m", "", (1, 2))
    keys.append((8, 8))
    fill(tmp_path, entry_of(keys.canonical_record(0, 2)))
    assert forget_files(tmp_path, range(100)) == 0
    assert ChunkFiles(tmp_path, "m").read(keys.canonical_record(0, 2).key) is not None
