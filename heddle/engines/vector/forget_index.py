"""The indexes that a corpus directory has from a corpus that is gone."""

import logging
from pathlib import Path

from heddle.core.errors import HeddleError
from heddle.engines.vector.files.manifest import FOLDER, MANIFEST, graph_path, read_manifest
from heddle.engines.vector.graph.graph_header import read_header
from heddle.engines.vector.shards.part import SHARDS

log = logging.getLogger(__name__)


def forget_indexes(directory: Path) -> None:
    """Have the indexes of a directory, and of its shards, be none of a corpus that is made there.

    An index knows its corpus by revision and count, and those of another corpus may be the same.
    Only files of ours go: a corpus may be made in a directory that holds others.

    Raises: OSError: the disk refuses.
    """
    for folder in (directory, *(directory / SHARDS).glob("*-of-*")):
        for path in (folder / FOLDER / MANIFEST, graph_path(folder)):
            if path.is_file() and _is_ours(folder, path):
                log.info("%s: the index of a corpus that is gone is left out", path)
                path.unlink(missing_ok=True)


def _is_ours(folder: Path, path: Path) -> bool:
    """Whether a file is one that would be read as an index."""
    try:
        if path.name == MANIFEST:
            read_manifest(folder)
        else:
            read_header(path)
    except (HeddleError, OSError):
        return False
    return True
