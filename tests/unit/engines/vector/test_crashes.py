"""A save of the index that is cut off anywhere: by a power cut, a kill, or a full disk."""

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from heddle.core.errors import StorageError
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.files import durable_file, index_kind
from heddle.engines.vector.files.index_kind import IndexKind
from heddle.engines.vector.files.manifest import graph_path
from heddle.engines.vector.graph import corpus_graph, live_graph
from heddle.engines.vector.graph.graph_file import write_graph
from heddle.engines.vector.graph.graph_index import build_graph
from heddle.engines.vector.graph.live_graph import LiveGraph
from heddle.engines.vector.ivf import live_index
from heddle.engines.vector.ivf.followed_ivf import FollowedIvf
from heddle.engines.vector.ivf.index_file import (
    open_index,
    read_index,
    refresh_index,
    write_index,
)
from tests.helpers.crash_shim import Operation, Recorder, Renamed, Synced, Unlinked, crash

REPLAYS = 500  # of each kind of index
KILLS = 20
ROWS = 200


def quiet(phase, done, count):
    """Hear of a build."""


class SavedLists:
    """How an index of lists is saved and found again."""

    refusal = "could not write the index"
    operations = (Synced, Renamed, Unlinked)

    def __init__(self, kind):
        self.kind = kind

    def save(self, directory, source):
        refresh_index(directory, source)

    def found(self, directory, source):
        """Return what a lane would begin with, or None if nothing that was saved is whole."""
        live = read_index(directory, source)
        assert live is None or live.kind is self.kind
        return live

    def revision(self, live):
        return live.revision

    def labels(self, live, source):
        """Return the chunks in it once it has followed the corpus."""
        live.follow(source)
        corpus = FollowedIvf(live, source)
        query = np.zeros((1, live.dims), np.float32)
        return corpus.scanner.search_at_once(query, live.count, live.nlist)[1][0]


class SavedGraph:
    """How a graph is."""

    refusal = "could not (write the graph|lay the vectors out)"
    operations = (Synced, Renamed)

    def save(self, directory, source):
        corpus_graph.refresh_graph(directory, source, quiet)

    def found(self, directory, source):
        live = corpus_graph.read_live(directory, source)
        return None if live.graph is None else live

    def revision(self, live):
        return live.graph.revision

    def labels(self, live, source):
        query = np.zeros((1, live.dims), np.float32)
        return nearest_in(live, query, live.count)[1][0]


def nearest_in(live: LiveGraph, query, k):
    """Compare a query with all that a graph has, those in it and those beside it, [1, k] each."""
    distances, labels = np.full((1, k), np.inf, np.float32), np.full((1, k), -1, np.int64)
    first, is_over = 0, False
    while not is_over:
        first, _ = live.compare_piece(query, first, distances, labels)
        is_over = first == 0
    return distances, labels


@pytest.fixture(params=[IndexKind.FLAT, IndexKind.PQ, "graph"], ids=str)
def saved(request, monkeypatch):
    if request.param == "graph":
        monkeypatch.setattr(live_graph, "CHANGED_MIN", 1)
        monkeypatch.setattr(live_graph, "CHANGED_SHARE", 0.0)
        return SavedGraph()
    monkeypatch.setattr(live_index, "TAIL_MIN", 1)
    if request.param is IndexKind.PQ:
        monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", ROWS // 2)
    return SavedLists(request.param)


@pytest.fixture
def source(tools, tmp_path, saved):
    """A corpus that has gone on since its index was saved."""
    source = tools.Source(tools.clustered(ROWS))
    saved.save(tmp_path, source)
    source.store_vectors(range(ROWS + 1, 2 * ROWS + 1), tools.clustered(ROWS, seed=9))
    source.delete(range(1, ROWS, 3))
    return source


def recorded(directory: Path, source, saved) -> Recorder:
    recorder = Recorder(directory / "index")
    with recorder.recording():
        saved.save(directory, source)
    return recorder


def found_after_crashes(
    directory: Path, source, saved, operations: list[Operation], first: int, count: int
) -> Iterator[object]:
    """Give what is found after a power cut, at moments drawn with a fixed seed."""
    folder = directory / "index"
    for seed in range(count):
        draw = random.Random(seed)
        for path in folder.iterdir():
            path.unlink()
        stop = draw.randint(first, len(operations))
        for name, content in crash(operations, stop, draw).items():
            (folder / name).write_bytes(content)
        yield saved.found(directory, source)


def test_a_power_cut_while_saving_loses_neither_the_index_nor_a_vector(tmp_path, source, saved):
    recorder = recorded(tmp_path, source, saved)
    seen = {type(operation) for operation in recorder.operations[recorder.started :]}
    assert seen >= set(saved.operations)
    revisions = set()
    for live in found_after_crashes(
        tmp_path, source, saved, recorder.operations, recorder.started, REPLAYS
    ):
        assert live is not None, "neither the old index nor the new one is whole"
        revisions.add(saved.revision(live))
        assert sorted(saved.labels(live, source).tolist()) == sorted(source.rows)
    assert revisions == {1, source.revision}


@pytest.mark.parametrize("left_out", ["file", "folder"])
def test_the_replays_notice_a_save_that_syncs_too_little(
    tmp_path, source, saved, monkeypatch, left_out
):
    if isinstance(saved, SavedGraph) and left_out == "folder":
        pytest.skip("a graph is one file: whichever of the two names it, it is whole")
    sync = durable_file.sync

    def sync_some(path: Path) -> None:
        if path.is_dir() != (left_out == "folder"):
            sync(path)

    monkeypatch.setattr(durable_file, "sync", sync_some)
    recorder = recorded(tmp_path, source, saved)
    operations, first = recorder.operations, recorder.started
    assert None in list(found_after_crashes(tmp_path, source, saved, operations, first, 100))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have the system refuse what makes a file of this process larger, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_disk_that_is_full_while_saving(tmp_path, source, saved, share):
    """The system's own refusal, met inside FAISS and numpy and not in a mock of them."""
    size = max(path.stat().st_size for path in (tmp_path / "index").iterdir())
    with (
        files_of_at_most(int(share * size)),
        pytest.raises(StorageError, match=saved.refusal),
    ):
        saved.save(tmp_path, source)
    old = saved.found(tmp_path, source)
    assert saved.revision(old) == 1
    assert sorted(saved.labels(old, source).tolist()) == sorted(source.rows)
    assert not list((tmp_path / "index").glob("*.tmp"))
    saved.save(tmp_path, source)
    assert saved.revision(saved.found(tmp_path, source)) == source.revision


def test_what_dead_writers_of_a_graph_left_goes_with_the_next_one(tools, tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    path = graph_path(tmp_path)
    path.parent.mkdir()
    left, written = (path.with_name(f"graph.{pid}.tmp") for pid in (dead.pid, os.getppid()))
    for temporary in (left, written):
        temporary.write_bytes(b"half of it")
    write_graph(path, build_graph(tools.clustered(50), np.arange(50)))
    assert sorted(path.parent.iterdir()) == sorted([path, written])


# Real kills ---------------------------------------------------------------------------------------

WRITERS = """
import os, sys
from pathlib import Path
import numpy as np
import faiss
from heddle.corpus.chunking import TextChunk
from heddle.corpus.document import Document
from heddle.corpus.records import EmbedderStamp
from heddle.corpus.store import CorpusStore
from heddle.engines.vector.files import index_kind
from heddle.engines.vector.ivf import live_index
from heddle.engines.vector.graph import corpus_graph
from heddle.engines.vector.graph import live_graph
from heddle.engines.vector.ivf.index_file import refresh_index

live_index.TAIL_MIN = live_graph.CHANGED_MIN = 1
live_graph.CHANGED_SHARE = 0.0
index_kind.EXHAUSTIVE_BELOW = 200  # so that there are codes as well

def vector(name):
    return np.random.default_rng(int(name[1:])).standard_normal(8).astype(np.float32)

def write(directory):
    with CorpusStore.open(directory, create=True) as store:
        store.set_embedder(EmbedderStamp("tiny", 8, "float32"))
        number = store.stats().documents
        while True:
            names = [f"d{number + i}" for i in range(10)]
            items = [(Document(n, n, n, ""), [TextChunk(0, n, n)]) for n in names]
            store.documents.put_documents(items)
            pending = store.documents.pending_chunks(1000)
            vectors = np.array([vector(chunk.text) for chunk in pending])
            store.store_vectors([chunk.chunk_id for chunk in pending], vectors)
            number += len(names)
            os.write(1, f"safe {number}\\n".encode())
            if sys.argv[1] == "graph":
                corpus_graph.refresh_graph(directory, store, lambda phase, done, count: None)
            else:
                refresh_index(directory, store)
            os.write(1, f"safe {number}\\n".encode())

# Each writer is a process of its own, but Python and FAISS are loaded only once.
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        write(Path(line.strip()))
    os.write(1, f"pid {pid}\\n".encode())
    os.waitpid(pid, 0)
    os.write(1, b"dead 0\\n")
"""


@contextmanager
def writers(kind: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def acknowledged_before_a_kill(process: subprocess.Popen[str], directory: Path, acks: int) -> int:
    """Start a writer, kill it after `acks` acknowledgements, and return its last promise."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{directory}\n")
    process.stdin.flush()
    pid, promised = None, 0
    for line in process.stdout:
        match line.split():
            case ["pid", number]:  # perhaps after the first acknowledgements
                pid = int(number)
            case ["safe", number]:
                promised, acks = int(number), acks - 1
            case _:
                return promised
        if pid is not None and acks <= 0:
            os.kill(pid, signal.SIGKILL)
            pid = None
    raise AssertionError("the writers have ended")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lists", "graph"])
def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", 200)
    check = {"lists": check_lists, "graph": check_graph}[kind]
    draw = random.Random(5)
    with writers(kind) as process:
        for _ in range(KILLS):
            promised = acknowledged_before_a_kill(process, tmp_path, draw.randint(1, 8))
            assert promised > 0
            with CorpusStore.open(tmp_path) as store:
                assert store.vector_count >= promised
                check(tmp_path, store, promised)
    assert not list((tmp_path / "index").glob("*.tmp"))


def vector_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(8).astype(np.float32)


def check_lists(directory: Path, store: CorpusStore, promised: int) -> None:
    """Each document that was acknowledged is found; then the next writer tidies up."""
    corpus = FollowedIvf(open_index(directory, store), store)
    queries = np.array([vector_of(number) for number in range(promised)])
    check_found(store, *corpus.scanner.search_at_once(queries, 1, sys.maxsize))
    write_index(directory, corpus.live, store)


def check_graph(directory: Path, store: CorpusStore, promised: int) -> None:
    """So it is, in the graph that a writer left or beside it; then the next writer tidies up."""
    live = corpus_graph.read_live(directory, store)
    assert live.graph is not None or not graph_path(directory).exists()
    found = [nearest_in(live, vector_of(number)[None], 1) for number in range(promised)]
    check_found(store, *(np.concatenate(part) for part in zip(*found, strict=True)))
    corpus_graph.build_live(directory, store, quiet)


def check_found(store: CorpusStore, distances, labels) -> None:
    chunk_ids = labels[:, 0].tolist()
    found = {passage.chunk_id: passage.document_id for passage in store.passages(chunk_ids)}
    names = [f"d{number}" for number in range(len(chunk_ids))]
    assert [found[chunk_id] for chunk_id in chunk_ids] == names
    assert (distances < 1e-2).all()
