"""The file: read back as written, and refused when anything about it is wrong."""

import json

import numpy as np
import pytest

from heddle.core.errors import InputError, StorageError
from heddle.engines.vector.graph import graph_file
from heddle.engines.vector.graph.graph_file import open_graph, write_graph
from heddle.engines.vector.graph.graph_header import PAGE
from tests.helpers.folder_locks import is_locked


@pytest.fixture
def path(graph, tmp_path):
    write_graph(tmp_path / "deep" / "graph", graph.index)
    return tmp_path / "deep" / "graph"


def test_a_graph_comes_back_as_it_was_written(graph, path):
    read = open_graph(path)
    for name in ("vectors", "neighbours", "labels", "entries"):
        np.testing.assert_array_equal(getattr(read, name), getattr(graph.index, name))
    assert read.revision == graph.index.revision
    assert not read.vectors.flags.owndata
    assert [entry.name for entry in path.parent.iterdir()] == ["graph"]


@pytest.mark.parametrize("kept", [0, 1, 100, PAGE, PAGE + 5, -1])
def test_a_truncated_file_is_refused(path, kept):
    content = path.read_bytes()
    path.write_bytes(content[:kept])
    with pytest.raises(InputError):
        open_graph(path)


def test_a_changed_byte_is_refused(path):
    content = bytearray(path.read_bytes())
    content[PAGE + 1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="corrupt"):
        open_graph(path)


@pytest.mark.parametrize("content", [b"\x00" * 5000, b"[]".ljust(PAGE), b'{"magic": 1}'])
def test_a_foreign_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match="no graph file"):
        open_graph(path)


def test_no_writer_replaces_what_is_read(graph, path, monkeypatch):
    locked = []
    for name in ("_digest", "file_memory"):
        part = getattr(graph_file, name)

        def read(file, part=part):
            locked.append(is_locked(path.parent))
            return part(file)

        monkeypatch.setattr(graph_file, name, read)
    assert open_graph(path).count == graph.index.count
    assert locked == [True, True]
    assert not is_locked(path.parent)


def test_edges_that_lead_nowhere_are_refused(graph, path):
    broken = graph.index.neighbours.copy()
    broken[3, 0] = len(graph.vectors)
    index = graph_file.GraphIndex(
        graph.index.vectors, broken, graph.index.labels, graph.index.entries
    )
    write_graph(path, index)
    with pytest.raises(InputError, match="fit together"):
        open_graph(path)


def test_a_header_of_another_version_is_refused(path):
    content = path.read_bytes()
    header = {**json.loads(content[:PAGE]), "magic": "heddle-graph-0"}
    path.write_bytes(json.dumps(header).encode().ljust(PAGE) + content[PAGE:])
    with pytest.raises(InputError, match="version"):
        open_graph(path)


def test_a_disk_that_refuses_leaves_the_old_file(graph, path, monkeypatch):
    before = path.read_bytes()

    def refuse(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(StorageError, match="No space"):
        write_graph(path, graph.index)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["graph"]


def test_a_missing_file_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError):
        open_graph(tmp_path / "none")
