"""Which files `heddle index PATH...` means."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError
from heddle.corpus.parsing.parse_file import KNOWN_SUFFIXES, parser_for

LEADS_OUT: Final = "a link out of what is indexed; --follow-links takes what it leads to"


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file and why it was left out."""

    path: str
    reason: str

    @classmethod
    def of(cls, path: Path, error: InputError) -> "FileNote":
        """Return the note of an error about a file, whose message may begin with the path."""
        name = str(path)
        return cls(name, str(error).removeprefix(name).lstrip(":, "))


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What was found.

    `files` are absolute, without links, each once, in walking order, with the names that they have
    from the paths as they were given; `roots` are the directories that were named; `skipped` need
    no attention, `refused` do.
    """

    files: Mapping[Path, str]
    roots: tuple[Path, ...]
    skipped: tuple[FileNote, ...]
    refused: tuple[FileNote, ...]


def find_files(
    paths: Iterable[Path], exclude: Path | None = None, *, follows_links: bool = False
) -> FoundFiles:
    """Find the files to index under these paths.

    Directories are walked in the order of names; hidden files, `exclude` (the corpus itself) and
    what was seen before (links may form a loop) are passed over, unknown formats are noted.
    Links that lead out of `paths` are noted and left, unless `follows_links`: who can write a link
    into a folder could have others' files read. A file that is named itself is wanted: if its
    format is unknown, it is refused.

    Raises: InputError: a path does not exist.
    """
    named = {path: _existing(path) for path in paths}
    within = None if follows_links else tuple(named.values())
    walk = _Walk(exclude.resolve() if exclude else None, within)
    for given, path in named.items():
        walk.add(path, given)
    return FoundFiles(
        files=walk.files,
        roots=tuple(path for path in named.values() if path.is_dir()),
        skipped=tuple(walk.skipped),
        refused=tuple(walk.refused),
    )


class _Walk:
    """Collects files; links are followed to what lies `within`, None = to anything."""

    def __init__(self, exclude: Path | None, within: tuple[Path, ...] | None) -> None:
        self.files: dict[Path, str] = {}
        self.skipped: list[FileNote] = []
        self.refused: list[FileNote] = []
        self._exclude = exclude
        self._within = within
        self._seen_directories: set[Path] = {exclude} if exclude else set()

    def add(self, named: Path, given: Path) -> None:
        """Take in a path that the user named, as it was `given`, and all that is under it."""
        if named == self._exclude:
            reason = "is where the corpus lies (--into): name a directory of its own for that"
            self.skipped.append(FileNote(str(named), reason))
            return
        waiting = [named]
        while waiting:
            path = waiting.pop()
            try:
                if self._leads_out(path):
                    self.skipped.append(FileNote(str(path), LEADS_OUT))
                elif path.is_dir():
                    waiting.extend(reversed(self._entries(path)))
                else:
                    self._add_file(path, given / path.relative_to(named), path == named)
            except OSError as error:
                reason = f"can't be read: {error.strerror or error}"
                self.refused.append(FileNote(str(path), reason))

    def _add_file(self, path: Path, name: Path, is_named: bool) -> None:
        if not path.exists():
            self.skipped.append(FileNote(str(path), "a broken link"))
            return
        if not path.is_file():
            self.skipped.append(FileNote(str(path), "not a regular file"))
            return
        file = path.resolve()
        if parser_for(path) is None or parser_for(file) is None:
            notes = self.refused if is_named else self.skipped
            where = "" if parser_for(path) is None else f"it leads to {file}, of "
            known = " ".join(KNOWN_SUFFIXES)
            notes.append(FileNote(str(path), f"{where}unknown format; known are {known}"))
        elif not (_is_utf8(file) and _is_utf8(name)):
            self.refused.append(FileNote(ascii(str(path)), "its name is not UTF-8; rename it"))
        else:
            self.files.setdefault(file, str(name))

    def _leads_out(self, path: Path) -> bool:
        if self._within is None or not path.is_symlink() or not path.exists():
            return False
        target = path.resolve()
        return not any(target.is_relative_to(root) for root in self._within)

    def _entries(self, directory: Path) -> list[Path]:
        resolved = directory.resolve()
        if resolved in self._seen_directories:
            return []
        self._seen_directories.add(resolved)
        names = sorted(os.listdir(directory))
        return [directory / name for name in names if not name.startswith(".")]


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _existing(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file or directory; check the path") from error
    except PermissionError as error:
        raise InputError(
            f"{path}: no permission to look there; change the modes or owners of its folders"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: can't be looked at: {error.strerror or error}") from error
    except RuntimeError as error:  # how Python 3.11 reports them
        raise InputError(f"{path}: its links form a loop") from error
