"""The index file of a corpus directory: derived, checked on open, replaced atomically.

`DIR/index/manifest.json` names the one valid file `ivf-<revision>.faiss`, the refine store that
belongs to it (`refine-<revision>.bin`, where there is one) and their checksums, or no file where
the corpus was empty. They never change:
what the corpus writes after their revision is replayed from it, its log, when they are opened, and
they are written anew when that has become much. If anything is wrong with them, the index is built
again from the vectors.
"""

import hashlib
import logging
from collections.abc import Callable, Collection
from pathlib import Path

import faiss

from heddle.core.errors import InputError, StorageError
from heddle.core.own_files import OWNER_ONLY
from heddle.corpus.sqlite.folder_lock import locked
from heddle.engines.vector.corpus.source import OTHER_ORIGIN, VectorSource
from heddle.engines.vector.files.durable_file import remove_abandoned, write_durably
from heddle.engines.vector.files.index_bytes import list_mode_of
from heddle.engines.vector.files.index_kind import IndexKind, SearchMode
from heddle.engines.vector.files.manifest import FOLDER, MANIFEST, IndexManifest, read_manifest
from heddle.engines.vector.files.refine_store import RefineStore
from heddle.engines.vector.ivf.live_index import LiveIndex

log = logging.getLogger(__name__)


def open_index(
    directory: Path,
    source: VectorSource,
    mode: SearchMode | None = None,
    *,
    saves_tail: bool = True,
) -> LiveIndex:
    """Return the index of a corpus, up to date.

    Reads the file where it is valid and replays what the corpus wrote since, else builds it
    anew; then refreshes the file if much has changed. A disk that refuses that costs time at the
    next open only.
    `mode` None keeps the one that the index was made for. Without `saves_tail`, only an index that
    was built anew is written: the caller has the rest written in the background.
    """
    live, is_built, is_changed = _current(directory, source, mode)
    if is_changed and (is_built or saves_tail):
        try:
            write_index(directory, live, source)
        except StorageError as error:
            log.warning("the index is kept in memory only: %s", error)
            live.tail = 0  # tried again after as many changes, not after each
    return live


def refresh_index(directory: Path, source: VectorSource, mode: SearchMode | None = None) -> None:
    """Bring the index file up to the corpus if much has changed, as an indexing run does.

    Raises:
        StorageError: the disk refused; the old file is still valid.
    """
    live, _, is_changed = _current(directory, source, mode)
    if is_changed:
        write_index(directory, live, source)


def read_index(directory: Path, source: VectorSource) -> LiveIndex | None:
    """Return the index as its file has it; None: there is none, or a warning says what is wrong."""
    folder = directory / FOLDER
    if not (folder / MANIFEST).exists():
        log.info("no index file yet in %s", folder)
        return None
    try:
        with locked(folder, shared=True):  # files of two indexes would not fit together
            return _read(directory, source)
    except (InputError, OSError, ValueError, RuntimeError) as error:
        log.warning("the index file is not used and built again: %s", error)
        return None


def write_index(directory: Path, live: LiveIndex, source: VectorSource) -> None:
    """Write the index beside the old one, then make it the valid one, then remove the old.

    A server's lane and an indexer may both come to do this: one after the other.

    Raises:
        StorageError: the disk refused; the old file is still valid.
    """
    folder = directory / FOLDER
    try:
        folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        with locked(folder):
            _write(folder, live, source)
    except (OSError, RuntimeError) as error:
        raise StorageError(f"could not write the index in {folder}: {error}") from error


def _write(folder: Path, live: LiveIndex, source: VectorSource) -> None:
    if live.index is None:
        _write_none(folder, live, repr(source.embedder))
        return
    name, refine, refine_digest = f"ivf-{live.revision}.faiss", "", ""
    if live.refine is not None:
        refine = f"refine-{live.revision}.bin"
        refine_digest = _write_file(folder / refine, live.refine.write)
    index = live.index
    digest = _write_file(folder / name, lambda path: faiss.write_index(index, str(path)))
    manifest = IndexManifest(
        file=name,
        revision=live.revision,
        sha256=digest,
        nlist=live.nlist,
        count=live.count,
        dims=int(live.index.d),
        embedder=repr(source.embedder),
        kind=live.kind.value,
        mode=live.mode.value,
        refine=refine,
        refine_sha256=refine_digest,
        origin=source.origin,
    )
    _write_manifest(folder, manifest)
    live.tail = 0
    _remove_others(folder, keep=(name, refine))
    if live.refine is not None:  # from now on read from the file, not from memory
        live.refine = RefineStore.open(folder / refine, manifest.dims)


def _write_none(folder: Path, live: LiveIndex, embedder: str) -> None:
    """Say that there are no vectors, and how they are to be searched once there are some."""
    if live.mode is SearchMode.AUTO:
        (folder / MANIFEST).unlink(missing_ok=True)
    else:
        kind, mode = IndexKind.FLAT.value, live.mode.value
        manifest = IndexManifest("", live.revision, "", 0, 0, 0, embedder, kind, mode, "", "")
        _write_manifest(folder, manifest)
    _remove_others(folder, keep=())


def _write_manifest(folder: Path, manifest: IndexManifest) -> None:
    _write_file(folder / MANIFEST, lambda path: path.write_text(manifest.to_json(), "utf-8"))


def _current(
    directory: Path, source: VectorSource, mode: SearchMode | None
) -> tuple[LiveIndex, bool, bool]:
    """Return the index up to the corpus; whether it was built; whether to write its file."""
    live = read_index(directory, source)
    wanted = mode or list_mode_of(directory)
    if live is not None:
        has_other_mode, live.mode = live.mode is not wanted, wanted
        live.follow(source)
        if live.count != source.vector_count and live.revision == source.revision:
            log.info("the index holds other vectors than the corpus: built again")
        elif live.is_outgrown:
            log.info("another index than %s of %d lists serves it: built", live.kind, live.nlist)
        else:
            return live, False, live.wants_saving or has_other_mode
    built = LiveIndex.build(source, wanted)
    return built, True, built.index is not None or _path(directory, MANIFEST).exists()


def _read(directory: Path, source: VectorSource) -> LiveIndex | None:
    manifest = read_manifest(directory)
    if not manifest.file:
        return None  # the corpus was empty
    _verify(directory, manifest, source)
    index = faiss.read_index(str(_path(directory, manifest.file)))
    if (index.ntotal, index.d) != (manifest.count, manifest.dims):
        raise InputError(f"{manifest.file} holds other vectors than its manifest says")
    refine = None
    if manifest.refine:
        refine = RefineStore.open(_path(directory, manifest.refine), manifest.dims)
    return LiveIndex(index, manifest.revision, refine, SearchMode(manifest.mode))


def _verify(directory: Path, manifest: IndexManifest, source: VectorSource) -> None:
    """Refuse an index of another corpus state or embedder, or one with other bytes."""
    if manifest.embedder != repr(source.embedder):
        raise InputError(f"it was made by {manifest.embedder}, the corpus by {source.embedder!r}")
    if manifest.origin != source.origin:
        raise InputError(OTHER_ORIGIN)
    if manifest.revision > source.revision:
        raise InputError(
            f"it covers revision {manifest.revision}, the corpus is at {source.revision}"
        )
    if manifest.dims != source.dims:
        raise InputError(f"it holds {manifest.dims}-d vectors, the corpus {source.dims}-d")
    files = {manifest.file: manifest.sha256, manifest.refine: manifest.refine_sha256}
    for name, digest in files.items():
        if Path(name).name != name:
            raise InputError(f"its manifest points outside the index folder: {name!r}")
        if name and _sha256(_path(directory, name)) != digest:
            raise InputError(f"{name} is corrupt: its checksum is not the manifest's")


def _write_file(target: Path, write: Callable[[Path], object]) -> str:
    """Write a file durably and atomically; return its sha256."""
    write_durably(target, write)
    return _sha256(target)


def _remove_others(folder: Path, *, keep: Collection[str]) -> None:
    """Remove older index files, and temporary ones whose writer has died."""
    for path in (*folder.glob("ivf-*.faiss"), *folder.glob("refine-*.bin")):
        if path.name not in keep:
            path.unlink(missing_ok=True)
    remove_abandoned(folder)


def _path(directory: Path, name: str) -> Path:
    return directory / FOLDER / name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
