"""The index file of a corpus directory: derived, checked on open, replaced atomically.

`DIR/index/manifest.json` names the one valid file `ivf-<revision>.faiss` and its checksum. The
corpus is the log: whatever is wrong with the file, the index is built again from the vectors.
"""

import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import psutil

from heddle.core.errors import InputError, StorageError
from heddle.engines.vector.live_index import IvfIndex, LiveIndex
from heddle.engines.vector.manifest import IndexManifest
from heddle.engines.vector.source import VectorSource

FOLDER = "index"
MANIFEST = "manifest.json"
log = logging.getLogger(__name__)


def open_index(directory: Path, source: VectorSource) -> LiveIndex:
    """Return the index of a corpus, up to date.

    Reads the file where it is valid and replays what the corpus wrote since, else builds it
    anew; then refreshes the file. A disk that refuses that costs time at the next open only.
    """
    live, is_changed = _current(directory, source)
    if is_changed:
        try:
            write_index(directory, live, source)
        except StorageError as error:
            log.warning("the index is kept in memory only: %s", error)
    return live


def refresh_index(directory: Path, source: VectorSource) -> None:
    """Bring the index file up to the corpus, as an indexing run does at its end.

    Raises:
        StorageError: the disk refused; the old file is still valid.
    """
    live, is_changed = _current(directory, source)
    if is_changed:
        write_index(directory, live, source)


def read_index(directory: Path, source: VectorSource) -> LiveIndex | None:
    """Return the index as its file has it, or None with a warning if it can't be trusted."""
    try:
        manifest = IndexManifest.from_json(_path(directory, MANIFEST).read_text("utf-8"))
        _verify(directory, manifest, source)
        index = faiss.read_index(str(_path(directory, manifest.file)))
        if (index.ntotal, index.d) != (manifest.count, manifest.dims):
            raise InputError(f"{manifest.file} holds other vectors than its manifest says")
    except FileNotFoundError as error:
        log.info("no index file yet: %s", error)
        return None
    except (InputError, OSError, ValueError, RuntimeError) as error:
        log.warning("the index file is not used and built again: %s", error)
        return None
    return LiveIndex(index, manifest.revision)


def write_index(directory: Path, live: LiveIndex, source: VectorSource) -> None:
    """Write the index beside the old one, then make it the valid one, then remove the old.

    A server's lane and an indexer may both come to do this: one after the other.

    Raises:
        StorageError: the disk refused; the old file is still valid.
    """
    folder = directory / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            _write(folder, live, repr(source.embedder))
    except (OSError, RuntimeError) as error:
        raise StorageError(f"could not write the index in {folder}: {error}") from error


def _write(folder: Path, live: LiveIndex, embedder: str) -> None:
    if live.index is None:
        (folder / MANIFEST).unlink(missing_ok=True)
        _remove_others(folder, keep="")
        return
    name = f"ivf-{live.revision}.faiss"
    digest = _write_file(folder / name, live.index)
    manifest = IndexManifest(
        file=name,
        revision=live.revision,
        sha256=digest,
        nlist=live.nlist,
        count=live.count,
        dims=int(live.index.d),
        embedder=embedder,
    )
    _replace(folder / MANIFEST, manifest.to_json().encode())
    _remove_others(folder, keep=name)


def _current(directory: Path, source: VectorSource) -> tuple[LiveIndex, bool]:
    """Return the index up to the corpus, and whether its file is behind."""
    live = read_index(directory, source)
    if live is not None:
        changes = live.follow(source)
        if live.count != source.vector_count and live.revision == source.revision:
            log.warning("the index holds other vectors than the corpus: built again")
        elif live.is_lopsided:
            log.info("the corpus has outgrown %d lists: index built again", live.nlist)
        else:
            return live, changes > 0
    built = LiveIndex.build(source)
    return built, built.index is not None or _path(directory, MANIFEST).exists()


def _verify(directory: Path, manifest: IndexManifest, source: VectorSource) -> None:
    """Refuse an index of another corpus state or embedder, or one with other bytes."""
    if manifest.embedder != repr(source.embedder):
        raise InputError(f"it was made by {manifest.embedder}, the corpus by {source.embedder!r}")
    if manifest.revision > source.revision:
        raise InputError(
            f"it covers revision {manifest.revision}, the corpus is at {source.revision}"
        )
    if manifest.dims != source.dims:
        raise InputError(f"it holds {manifest.dims}-d vectors, the corpus {source.dims}-d")
    if Path(manifest.file).name != manifest.file:
        raise InputError(f"its manifest points outside the index folder: {manifest.file!r}")
    if _sha256(_path(directory, manifest.file)) != manifest.sha256:
        raise InputError(f"{manifest.file} is corrupt: its checksum is not the manifest's")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other threads and processes from writing here; the lock ends with its holder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_file(target: Path, index: IvfIndex) -> str:
    """Write an index durably and atomically; return its sha256."""
    temporary = _temporary(target)
    try:
        faiss.write_index(index, str(temporary))
        _sync(temporary)
        digest = _sha256(temporary)
        os.replace(temporary, target)
        _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return digest


def _replace(target: Path, content: bytes) -> None:
    """Put a small file durably and atomically in place."""
    temporary = _temporary(target)
    try:
        temporary.write_bytes(content)
        _sync(temporary)
        os.replace(temporary, target)
        _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_others(folder: Path, *, keep: str) -> None:
    """Remove older index files, and temporary ones whose writer has died."""
    for path in folder.glob("ivf-*.faiss"):
        if path.name != keep:
            path.unlink(missing_ok=True)
    for path in folder.glob("*.tmp"):
        writer = path.name.split(".")[-2]
        if not writer.isdecimal() or _is_mine_or_dead(int(writer)):
            path.unlink(missing_ok=True)


def _is_mine_or_dead(pid: int) -> bool:
    return pid == os.getpid() or not psutil.pid_exists(pid)


def _temporary(target: Path) -> Path:
    return target.with_name(f"{target.name}.{os.getpid()}.tmp")


def _path(directory: Path, name: str) -> Path:
    return directory / FOLDER / name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
