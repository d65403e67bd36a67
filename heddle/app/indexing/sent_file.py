"""A file that a client has sent, on the disk for as long as it is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from heddle.corpus.sqlite.storage_errors import storage_errors

FOLDER: Final = Path("the folder of temporary files (TMPDIR)")


@contextmanager
def sent_file(name: str, content: bytes) -> Iterator[Path]:
    """Yield the path of a file with this name and content; it is removed at the end.

    Raises:
        StorageError: the disk refuses, or there is no folder for temporary files.
    """
    with storage_errors(FOLDER):
        folder = TemporaryDirectory(prefix="heddle-file-")
    with folder:
        path = Path(folder.name) / name
        with storage_errors(path):
            path.write_bytes(content)
        yield path
