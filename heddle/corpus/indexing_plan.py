"""What `heddle index PATH... --into DIR` has to do: which files are new, changed, gone."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path

from heddle.core.errors import InputError
from heddle.corpus.file_discovery import FileNote, find_files
from heddle.corpus.parsing.file_reading import file_errors
from heddle.corpus.records import SourceFile
from heddle.corpus.store import CorpusStore


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Files by what has to be done with them.

    `gone` were indexed, are or lie under a path that was named, and exist no more. `touched` are
    unchanged but have a new time. `refused` can't be indexed although they were asked for. `names`
    are what users call the files.
    """

    added: tuple[Path, ...]
    changed: tuple[Path, ...]
    unchanged: tuple[Path, ...]
    gone: tuple[str, ...]
    touched: tuple[SourceFile, ...]
    skipped: tuple[FileNote, ...]
    refused: tuple[FileNote, ...]
    names: Mapping[Path, str]


def plan(
    paths: Collection[Path],
    store: CorpusStore,
    *,
    prune: bool = False,
    chunking: str | None = None,
    incomplete: Collection[str] = (),
) -> IndexPlan:
    """Find out which files are new, changed, unchanged (these are skipped) or gone.

    They are compared with what the corpus knows of them: size and time first, then content.

    With `prune`, a path may be gone itself, if documents came from it. Files whose chunks
    were not cut by `chunking` count as changed; None = that makes no difference. So do the
    `incomplete` ones, of which the corpus lacks something that it has had.

    Raises: InputError: a path does not exist.
    """
    known_gone = tuple(name for name in store.runs.source_names() if is_gone(name))
    lost = [p for p in paths if prune and is_gone(str(p)) and _under([p.resolve()], known_gone)]
    found = find_files(
        (path for path in paths if path not in lost),
        exclude=store.place.work,
        follows_links=store.runs.follows_links,
    )
    added: list[Path] = []
    changed: list[Path] = []
    unchanged: list[Path] = []
    touched: list[SourceFile] = []
    refused = list(found.refused)
    for path in found.files:
        known = store.runs.source(str(path))
        if known is None:
            added.append(path)
            continue
        try:
            is_cut_so = chunking in (None, known.chunking)
            is_stored_so = is_cut_so and str(path) not in incomplete
            now = _unless_changed(path, known) if is_stored_so else None
        except InputError as error:
            refused.append(FileNote.of(path, error))
            continue
        if now is None:
            changed.append(path)
        else:
            unchanged.append(path)
            if now != known:
                touched.append(now)
    return IndexPlan(
        added=tuple(added),
        changed=tuple(changed),
        unchanged=tuple(unchanged),
        gone=_under([*found.roots, *(path.resolve() for path in lost)], known_gone),
        touched=tuple(touched),
        skipped=found.skipped,
        refused=tuple(refused),
        names=found.files,
    )


def source_file(path: Path) -> SourceFile:
    """Return a file's name, size, time and hash, as they are now.

    Raises: InputError: it can't be read.
    """
    with file_errors(path), path.open("rb") as file:
        # Before the hash: if the file changes meanwhile, the next run sees another time.
        status = os.fstat(file.fileno())
        sha256 = file_digest(file, "sha256").hexdigest()
    return SourceFile(str(path), sha256, status.st_size, status.st_mtime_ns)


def is_gone(name: str) -> bool:
    """Whether a file exists no more; one that merely can't be looked at is not gone."""
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _unless_changed(path: Path, known: SourceFile) -> SourceFile | None:
    """Return the file as it is now if its content is what is known, else None."""
    with file_errors(path):
        status = path.stat()
    if status.st_size != known.size:
        return None
    if status.st_mtime_ns == known.mtime_ns:
        return known
    now = replace(source_file(path), chunking=known.chunking)
    return now if now.sha256 == known.sha256 else None


def _under(roots: Iterable[Path], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are one of the roots or lie under one."""
    inside = tuple(os.path.join(root, "") for root in roots)
    return tuple(name for name in names if os.path.join(name, "").startswith(inside))
