"""Bytes that are no manifest of an index, at the place of one."""

from pathlib import Path

import pytest

from heddle.core.errors import InputError
from heddle.engines.vector.files.manifest import FOLDER, MANIFEST, read_manifest
from heddle.engines.vector.forget_index import forget_indexes


@pytest.mark.parametrize("content", [b"\xff\x00", b"no JSON", b"[" * 100_000, b"[]", b"{}"])
def test_what_is_no_manifest_is_refused_and_a_new_corpus_leaves_it(tmp_path: Path, content: bytes):
    path = tmp_path / FOLDER / MANIFEST
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(InputError, match="the index manifest "):
        read_manifest(tmp_path)
    forget_indexes(tmp_path)
    assert path.read_bytes() == content
