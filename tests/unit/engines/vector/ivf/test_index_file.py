import errno
import fcntl
import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from heddle.core.errors import StorageError
from heddle.engines.vector.corpus.rebuild import Rebuild
from heddle.engines.vector.files import index_kind
from heddle.engines.vector.files.index_kind import IndexKind, SearchMode
from heddle.engines.vector.files.manifest import read_manifest
from heddle.engines.vector.index_check import index_problem
from heddle.engines.vector.ivf import index_file, live_index
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.index_file import open_index, read_index, refresh_index, write_index
from heddle.engines.vector.ivf.live_index import LiveIndex
from heddle.engines.vector.ivf.stepping_check import one_shot
from tests.helpers.folder_locks import is_locked


@pytest.fixture
def source(tools, monkeypatch):
    monkeypatch.setattr(live_index, "TAIL_SHARE", 0.0)
    monkeypatch.setattr(live_index, "TAIL_MIN", 50)
    return tools.Source(tools.clustered(1000))


@pytest.fixture
def coded(source, monkeypatch):
    """A corpus large enough for codes."""
    monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", 500)
    return source


def files(directory):
    return sorted(path.name for path in (directory / "index").iterdir())


def assert_right(tools, live, source):
    """The index holds exactly what the corpus holds."""
    assert live.revision == source.revision
    chunk_ids = np.array(sorted(source.rows))
    vectors = np.stack([source.rows[i][1] for i in chunk_ids])
    queries = tools.clustered(20, seed=3)
    distances, labels = one_shot(live.index, queries, 6, live.nlist)
    exact = np.sort(((queries[:, None] - vectors[None]) ** 2).sum(-1), axis=1)[:, :6]
    np.testing.assert_allclose(distances, exact, rtol=1e-4, atol=1e-5)
    assert np.isin(labels, chunk_ids).all()
    assert live.count == len(chunk_ids)


def test_open_builds_the_file_and_reads_it_back(tools, tmp_path, source, monkeypatch):
    first = open_index(tmp_path, source)
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]
    monkeypatch.setattr(LiveIndex, "build", None)  # not needed again
    second = open_index(tmp_path, source)
    assert_right(tools, second, source)
    np.testing.assert_array_equal(
        first.index.quantizer.reconstruct_n(0, first.nlist),
        second.index.quantizer.reconstruct_n(0, first.nlist),
    )


def test_an_old_file_is_replayed_and_refreshed(tools, tmp_path, source, monkeypatch):
    open_index(tmp_path, source)
    source.store_vectors(range(1001, 1101), tools.clustered(100, seed=9))
    source.delete([5, 6])
    with monkeypatch.context() as patch:
        patch.setattr(LiveIndex, "build", None)
        assert_right(tools, open_index(tmp_path, source), source)
    assert files(tmp_path) == ["ivf-3.faiss", "manifest.json"]


def test_a_corpus_that_has_outgrown_its_lists_gets_new_ones(tools, tmp_path, source):
    assert open_index(tmp_path, source).nlist == 15
    source.store_vectors(range(1001, 4001), tools.clustered(3000, seed=9))
    refresh_index(tmp_path, source)
    live = read_index(tmp_path, source)
    assert live.nlist == 62
    assert_right(tools, live, source)


def flip_a_byte(folder):
    path = next(folder.glob("*.faiss"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_short(folder):
    path = next(folder.glob("*.faiss"))
    path.write_bytes(path.read_bytes()[:-100])


def edit(**changes):
    def apply(folder):
        path = folder / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return apply


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_byte,
        cut_short,
        lambda folder: next(folder.glob("*.faiss")).unlink(),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_bytes(b"\xff\x00"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        edit(revision=99),
        edit(revision="1"),
        edit(embedder="'other'"),
        edit(count=3),
        edit(file="../../elsewhere.faiss"),
    ],
)
def test_a_damaged_file_is_never_served(tools, tmp_path, source, damage):
    open_index(tmp_path, source)
    damage(tmp_path / "index")
    assert read_index(tmp_path, source) is None
    assert_right(tools, open_index(tmp_path, source), source)
    assert_right(tools, read_index(tmp_path, source), source)


def test_damage_is_logged(tmp_path, source, caplog):
    open_index(tmp_path, source)
    flip_a_byte(tmp_path / "index")
    with caplog.at_level(logging.WARNING):
        open_index(tmp_path, source)
        assert "corrupt" in caplog.text
        next((tmp_path / "index").glob("*.faiss")).unlink()
        open_index(tmp_path, source)
    assert "built again: [Errno 2] No such file" in caplog.text


def test_a_manifest_of_another_version_is_named_as_one(tmp_path, source, caplog):
    open_index(tmp_path, source)
    path = tmp_path / "index" / "manifest.json"
    fields = json.loads(path.read_text())
    del fields["kind"]
    path.write_text(json.dumps(fields))
    open_index(tmp_path, source)
    assert "built again: the index manifest has no valid 'kind': another version" in caplog.text
    assert read_manifest(tmp_path).kind == "flat"


def test_a_file_of_another_corpus_is_built_again(tools, tmp_path, source):
    open_index(tmp_path, source)
    other = tools.Source(tools.clustered(700, seed=6))
    assert_right(tools, open_index(tmp_path, other), other)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["replace_file", "replace_manifest", "write", "full_disk"])
def test_a_stop_while_writing_leaves_the_old_file_valid(tools, tmp_path, source, monkeypatch, step):
    open_index(tmp_path, source)
    source.store_vectors(range(1001, 1051), tools.clustered(50, seed=9))
    replaced = []

    def replace(start, end, *, original=os.replace):
        replaced.append(end)
        if len(replaced) == (1 if step == "replace_file" else 2):
            raise Killed
        original(start, end)

    def stop(index, path):
        with open(path, "wb") as file:
            file.write(b"half")
        raise RuntimeError("No space left on device") if step == "full_disk" else Killed

    with monkeypatch.context() as patch:
        if step.startswith("replace"):
            patch.setattr(os, "replace", replace)
        else:
            patch.setattr(index_file.faiss, "write_index", stop)
        with pytest.raises(StorageError if step == "full_disk" else Killed):
            refresh_index(tmp_path, source)
    old = read_index(tmp_path, source)
    assert (old.revision, old.count) == (1, 1000)
    assert_right(tools, open_index(tmp_path, source), source)
    assert files(tmp_path) == ["ivf-2.faiss", "manifest.json"]


def test_a_disk_that_refuses_costs_no_answer_at_open(tools, tmp_path, source, monkeypatch, caplog):
    def refuse(index, path):
        raise RuntimeError("No space left on device")

    monkeypatch.setattr(index_file.faiss, "write_index", refuse)
    live = open_index(tmp_path, source)
    assert_right(tools, live, source)
    assert "No space left" in caplog.text
    assert not live.wants_saving  # not tried again after every change


def test_left_overs_of_a_dead_writer_are_removed(tmp_path, source):
    (tmp_path / "index").mkdir()
    left = tmp_path / "index" / f"ivf-0.faiss.{2**22 + 1}.tmp"
    left.write_bytes(b"half")
    living = tmp_path / "index" / f"ivf-0.faiss.{os.getppid()}.tmp"
    living.write_bytes(b"half")
    open_index(tmp_path, source)
    assert not left.exists()
    assert living.exists()


def test_an_empty_corpus_needs_no_file(tools, tmp_path, source):
    live = open_index(tmp_path, tools.Source())
    assert (live.index, live.count, live.nlist) == (None, 0, 0)
    open_index(tmp_path, source)
    source.delete(list(source.rows))
    assert open_index(tmp_path, source).count == 0
    assert read_index(tmp_path, source) is None


def test_writers_take_turns(tools, tmp_path, source):
    live = LiveIndex.build(source)
    with ThreadPoolExecutor(4) as pool:
        for written in [pool.submit(write_index, tmp_path, live, source) for _ in range(12)]:
            written.result()
    assert_right(tools, read_index(tmp_path, source), source)
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]


def test_no_writer_replaces_what_is_read(tmp_path, coded, monkeypatch):
    open_index(tmp_path, coded)
    folder, parts, locked = tmp_path / "index", [], []
    for module, name in ((index_file, "_sha256"), (index_file.RefineStore, "open")):
        part = getattr(module, name)

        def read(path, *dims, part=part):
            parts.append(path.name)
            locked.append(is_locked(folder))
            return part(path, *dims)

        monkeypatch.setattr(module, name, read)
    assert read_index(tmp_path, coded).count == 1000
    assert parts == ["ivf-1.faiss", "refine-1.bin", "refine-1.bin"]
    assert all(locked)
    assert not is_locked(folder)


def test_a_file_system_without_locks_can_be_read(tmp_path, source, monkeypatch):
    open_index(tmp_path, source)

    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert read_index(tmp_path, source).count == 1000


def test_a_short_tail_is_replayed_and_not_written(tools, tmp_path, source, monkeypatch):
    open_index(tmp_path, source)
    source.store_vectors(range(1001, 1041), tools.clustered(40, seed=9))
    source.delete([5])
    with monkeypatch.context() as patch:
        patch.setattr(index_file, "write_index", None)  # not called
        refresh_index(tmp_path, source)
        live = open_index(tmp_path, source)
    assert (live.tail, live.wants_saving) == (41, False)
    assert_right(tools, live, source)
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]
    source.delete(range(10, 20))
    live = open_index(tmp_path, source)
    assert (live.tail, live.revision) == (0, 4)
    assert files(tmp_path) == ["ivf-4.faiss", "manifest.json"]


def test_a_long_tail_may_be_left_to_be_written_later(tools, tmp_path, source):
    open_index(tmp_path, source, saves_tail=False)
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]  # it was built
    source.store_vectors(range(1001, 1101), tools.clustered(100, seed=9))
    live = open_index(tmp_path, source, saves_tail=False)
    assert (live.tail, live.wants_saving) == (100, True)
    assert_right(tools, live, source)
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]


def test_a_running_lane_saves_what_has_become_much(tools, tmp_path, source):
    live = open_index(tmp_path, source)
    rebuild = Rebuild(lambda: open_index(tmp_path, source), tools.Clock())
    corpus = FollowedIvf(live, source, rebuild=rebuild)
    source.store_vectors(range(1001, 1041), tools.clustered(40, seed=9))
    corpus.follow(in_flight=False)
    rebuild.wait()
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json"]
    source.store_vectors(range(1041, 1061), tools.clustered(20, seed=8))
    corpus.follow(in_flight=False)
    rebuild.wait()
    assert files(tmp_path) == ["ivf-3.faiss", "manifest.json"]
    assert not corpus.covers(source.revision)  # the saved one waits to take over
    corpus.follow(in_flight=False)
    assert corpus.covers(source.revision)
    assert corpus.live.tail == 0
    assert_right(tools, corpus.live, source)


# An index with a refine store


def found_in(tools, live, source):
    corpus = FollowedIvf(live, source)
    return corpus.scanner.search_at_once(tools.clustered(20, seed=3), 6, live.nlist)


def test_codes_and_their_vectors_are_read_back(tools, tmp_path, coded, monkeypatch):
    first = open_index(tmp_path, coded)
    assert first.kind is IndexKind.PQ
    assert files(tmp_path) == ["ivf-1.faiss", "manifest.json", "refine-1.bin"]
    expected = found_in(tools, first, coded)
    with monkeypatch.context() as patch:
        patch.setattr(LiveIndex, "build", None)  # not needed again
        second = open_index(tmp_path, coded)
    np.testing.assert_array_equal(found_in(tools, second, coded), expected)

    coded.store_vectors(range(1001, 1101), tools.clustered(100, seed=9))
    coded.delete([5, 6])
    with monkeypatch.context() as patch:
        patch.setattr(LiveIndex, "build", None)
        third = open_index(tmp_path, coded)
    assert files(tmp_path) == ["ivf-3.faiss", "manifest.json", "refine-3.bin"]
    assert (third.count, third.revision) == (1098, 3)
    assert not np.isin([5, 6], found_in(tools, third, coded)[1]).any()


@pytest.mark.parametrize("name", ["refine-1.bin", "ivf-1.faiss"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_part_is_never_served(tools, tmp_path, coded, name, damage):
    expected = found_in(tools, open_index(tmp_path, coded), coded)
    path = tmp_path / "index" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flip" else content[:-20])
    assert read_index(tmp_path, coded) is None
    np.testing.assert_array_equal(found_in(tools, open_index(tmp_path, coded), coded), expected)


def test_a_stop_after_the_first_part_leaves_the_old_files_valid(
    tools, tmp_path, coded, monkeypatch
):
    open_index(tmp_path, coded)
    coded.store_vectors(range(1001, 1051), tools.clustered(50, seed=9))

    def stop(index, path):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(index_file.faiss, "write_index", stop)
        with pytest.raises(Killed):
            refresh_index(tmp_path, coded)
    old = read_index(tmp_path, coded)
    assert (old.revision, old.count) == (1, 1000)
    assert open_index(tmp_path, coded).count == 1050
    assert files(tmp_path) == ["ivf-2.faiss", "manifest.json", "refine-2.bin"]


def test_the_mode_is_kept_until_another_is_asked_for(tmp_path, coded):
    refresh_index(tmp_path, coded, SearchMode.EXACT)
    assert open_index(tmp_path, coded).kind is IndexKind.PANORAMA
    manifest = read_manifest(tmp_path)
    assert (manifest.kind, manifest.mode, manifest.refine) == ("panorama", "exact", "")
    coded.store_vectors(range(1001, 1101), np.ones((100, 16), np.float32) / 4)
    refresh_index(tmp_path, coded)
    assert open_index(tmp_path, coded).kind is IndexKind.PANORAMA
    refresh_index(tmp_path, coded, SearchMode.AUTO)
    assert open_index(tmp_path, coded).kind is IndexKind.PQ
    assert files(tmp_path) == ["ivf-2.faiss", "manifest.json", "refine-2.bin"]


def test_an_index_of_the_tables_before_a_restore_is_built_again(tools, tmp_path, source, caplog):
    source.origin = "1.1.24854"
    open_index(tmp_path, source)
    restored = tools.Source(tools.clustered(1000, seed=9))  # as many commits, vectors, chunk ids
    restored.origin = "1.1.30012"
    assert_right(tools, open_index(tmp_path, restored), restored)
    assert "other tables than the corpus's" in caplog.text
    assert read_manifest(tmp_path).origin == "1.1.30012"


def test_a_manifest_without_an_origin_is_that_of_an_older_file(tmp_path, source):
    refresh_index(tmp_path, source)
    path = tmp_path / "index" / "manifest.json"
    older = json.loads(path.read_text())
    del older["origin"]
    path.write_text(json.dumps(older))
    assert read_index(tmp_path, source).count == 1000


@pytest.mark.parametrize("name", ["ivf-1.faiss", None])
def test_the_mode_outlasts_an_index_that_is_lost(tools, tmp_path, coded, name):
    refresh_index(tmp_path, coded, SearchMode.EXACT)
    if name is None:  # the corpus is emptied, and filled again
        coded.delete(list(coded.rows))
        assert open_index(tmp_path, coded).index is None
        assert index_problem(tmp_path, coded, np.zeros(0, np.int64)) == ""
        coded.store_vectors(range(1001, 2001), tools.clustered(1000, seed=4))
    else:
        (tmp_path / "index" / name).write_bytes(b"damaged")
    assert read_index(tmp_path, coded) is None
    assert open_index(tmp_path, coded).kind is IndexKind.PANORAMA
    assert read_manifest(tmp_path).mode == "exact"
