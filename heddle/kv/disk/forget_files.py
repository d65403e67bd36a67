"""Remove the stored KV of chunks that a corpus has deleted, for every model that has any."""

from collections.abc import Collection
from pathlib import Path

from heddle.core.errors import InputError, StorageError
from heddle.kv.disk.chunk_header import SUFFIX, described


def forget_files(directory: Path, sources: Collection[int]) -> int:
    """Remove the entries below a chunk KV directory whose values have seen one of these chunks.

    Stores that have the directory open find such a file gone: a miss. Unreadable files are removed
    too, as their sources are unknown.

    Args:
        directory: what the stores of all models were given.
        sources: ids of the corpus.
    Returns: how many files were removed.

    Raises:
        StorageError: the disk refuses to remove one.
    """
    gone, removed = set(sources), 0
    if not gone:
        return 0
    for path in directory.glob(f"*/*{SUFFIX}"):
        if gone.isdisjoint(_sources(path, gone)):
            continue
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{path} holds the KV of a deleted document and can't be removed: {error}"
            ) from error
        removed += 1
    return removed


def _sources(path: Path, gone: Collection[int]) -> Collection[int]:
    try:
        return described(path).record.sources
    except (InputError, OSError):
        return gone
