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
from heddle.engines.vector import index_file, index_kind, live_index
from heddle.engines.vector.index_file import open_index, read_index, refresh_index
from heddle.engines.vector.index_kind import IndexKind
from heddle.engines.vector.worker import FaissWorker
from tests.helpers.crash_shim import Operation, Recorder, Renamed, Synced, Unlinked, crash

REPLAYS = 500  # of each kind of index
KILLS = 20
ROWS = 200


@pytest.fixture(params=[IndexKind.FLAT, IndexKind.PQ], ids=lambda kind: kind.value)
def kind(request, monkeypatch):
    if request.param is IndexKind.PQ:
        monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", ROWS // 2)
    return request.param


@pytest.fixture
def source(tools, tmp_path, kind, monkeypatch):
    """A corpus that has gone on since its index was saved."""
    monkeypatch.setattr(live_index, "TAIL_MIN", 1)
    source = tools.Source(tools.clustered(ROWS))
    refresh_index(tmp_path, source)
    source.store_vectors(range(ROWS + 1, 2 * ROWS + 1), tools.clustered(ROWS, seed=9))
    source.delete(range(1, ROWS, 3))
    return source


def recorded(directory: Path, source) -> Recorder:
    recorder = Recorder(directory / "index")
    with recorder.recording():
        refresh_index(directory, source)
    return recorder


def indexes_after_crashes(
    directory: Path, source, operations: list[Operation], first: int, count: int
) -> Iterator[index_file.LiveIndex | None]:
    """Give the index that is found after a power cut, at moments drawn with a fixed seed."""
    folder = directory / "index"
    for seed in range(count):
        draw = random.Random(seed)
        for path in folder.iterdir():
            path.unlink()
        stop = draw.randint(first, len(operations))
        for name, content in crash(operations, stop, draw).items():
            (folder / name).write_bytes(content)
        yield read_index(directory, source)


def test_a_power_cut_while_saving_loses_neither_the_index_nor_a_vector(tmp_path, source, kind):
    recorder = recorded(tmp_path, source)
    seen = {type(operation) for operation in recorder.operations[recorder.started :]}
    assert seen >= {Synced, Renamed, Unlinked}
    revisions = set()
    for live in indexes_after_crashes(
        tmp_path, source, recorder.operations, recorder.started, REPLAYS
    ):
        assert live is not None, "neither the old index nor the new one is whole"
        assert live.kind is kind
        revisions.add(live.revision)
        live.follow(source)
        worker = FaissWorker(live, source)
        query = np.zeros((1, worker.dims), np.float32)
        _, labels = worker.search_at_once(query, live.count, live.nlist)
        assert sorted(labels[0].tolist()) == sorted(source.rows)
    assert revisions == {1, source.revision}


@pytest.mark.parametrize("left_out", ["file", "folder"])
def test_the_replays_notice_a_save_that_syncs_too_little(tmp_path, source, monkeypatch, left_out):
    sync = index_file._sync

    def sync_some(path: Path) -> None:
        if path.is_dir() != (left_out == "folder"):
            sync(path)

    monkeypatch.setattr(index_file, "_sync", sync_some)
    recorder = recorded(tmp_path, source)
    found = indexes_after_crashes(tmp_path, source, recorder.operations, recorder.started, 100)
    assert None in list(found)


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
def test_a_disk_that_is_full_while_saving(tmp_path, source, kind, share):
    """The system's own refusal, met inside FAISS and numpy and not in a mock of them."""
    size = max(path.stat().st_size for path in (tmp_path / "index").iterdir())
    with (
        files_of_at_most(int(share * size)),
        pytest.raises(StorageError, match="could not write the index"),
    ):
        refresh_index(tmp_path, source)
    old = read_index(tmp_path, source)
    assert (old.revision, old.count) == (1, ROWS)
    assert not list((tmp_path / "index").glob("*.tmp"))
    assert open_index(tmp_path, source).count == source.vector_count
    assert read_index(tmp_path, source).revision == source.revision


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
from heddle.engines.vector import index_kind, live_index
from heddle.engines.vector.index_file import refresh_index

live_index.TAIL_MIN = 1
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
            store.put_documents(items)
            pending = store.pending_chunks(1000)
            vectors = np.array([vector(chunk.text) for chunk in pending])
            store.store_vectors([chunk.chunk_id for chunk in pending], vectors)
            number += len(names)
            os.write(1, f"safe {number}\\n".encode())
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
def writers() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS],
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
    """Start a writer, kill it after so many acknowledgements, and return what it has promised."""
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


def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path, monkeypatch):
    monkeypatch.setattr(index_kind, "EXHAUSTIVE_BELOW", 200)
    draw = random.Random(5)
    with writers() as process:
        for _ in range(KILLS):
            promised = acknowledged_before_a_kill(process, tmp_path, draw.randint(1, 8))
            assert promised > 0
            check_documents(tmp_path, promised)
    assert not list((tmp_path / "index").glob("*.tmp"))


def check_documents(directory: Path, promised: int) -> None:
    """Every document that was acknowledged is found by its own vector."""
    with CorpusStore.open(directory) as store:
        assert store.vector_count >= promised
        worker = FaissWorker(open_index(directory, store), store)
        names = [f"d{number}" for number in range(promised)]
        queries = np.array([np.random.default_rng(n).standard_normal(8) for n in range(promised)])
        distances, labels = worker.search_at_once(queries.astype(np.float32), 1, sys.maxsize)
        found = {p.chunk_id: p.document_id for p in store.passages(labels[:, 0].tolist())}
        assert [found[chunk_id] for chunk_id in labels[:, 0].tolist()] == names
        assert (distances < 1e-2).all()
