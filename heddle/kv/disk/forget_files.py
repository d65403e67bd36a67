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
        StorageError: the disk refuses to remove some; the others are gone.
    """
    gone, removed = set(sources), 0
    if not gone:
        return 0
    refused: list[str] = []
    for path in directory.glob(f"*/*{SUFFIX}"):
        if gone.isdisjoint(_sources(path, gone)):
            continue
        try:
            path.unlink(missing_ok=True)
            removed += 1
        except OSError as error:
            refused.append(
                f"{path} holds the KV of a deleted document and can't be removed: {error}"
            )
    if refused:
        others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise StorageError(
            f"{refused[0]}{others}: mend that, then delete the document again or run heddle index"
        )
    return removed


def _sources(path: Path, gone: Collection[int]) -> Collection[int]:
    try:
        return described(path).record.sources
    except (InputError, OSError):
        return gone
