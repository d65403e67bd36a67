"""What a disk may hold after a power cut at any moment of a recorded run.

`Recorder` notes what is written, synced, renamed and unlinked in one folder, whichever layer did
it: file contents are looked at before every fsync, rename and unlink, so FAISS's own writes are
seen too. `crash` plays a prefix back with what was not synced dropped, torn or there: pages of a
file each on their own, and changes of the folder too, as POSIX promises no order.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

PAGE = 512  # the unit in which a write may be torn: a disk's sector


@dataclass(frozen=True, slots=True)
class Written:
    """A file's whole content after a write; its earlier content is overwritten."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Synced:
    """fsync of a file, or of the folder where `path` is ""."""

    path: str


@dataclass(frozen=True, slots=True)
class Renamed:
    """Takes the place of what has this name, if anything has."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A name is gone."""

    path: str


Operation = Written | Synced | Renamed | Unlinked


class Recorder:
    """Notes what happens to one folder's files.

    Args:
        folder: has no folders in it.
    Mutates: `operations`, in the order in which they happened; the first ones write and sync what
    is there at the beginning.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.operations: list[Operation] = []
        self._seen: dict[str, bytes] = {}
        self._look()
        self.operations += [Synced(name) for name in sorted(self._seen)] + [Synced("")]
        self.started = len(self.operations)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Note what happens inside."""
        fsync, replace, unlink = os.fsync, os.replace, os.unlink

        def note_fsync(descriptor: int) -> None:
            self._look()
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path == self.folder:
                self.operations.append(Synced(""))
            elif path.parent == self.folder:
                self.operations.append(Synced(path.name))
            fsync(descriptor)

        def note_replace(source: Path, target: Path) -> None:
            self._look()
            replace(source, target)
            name = Path(source).name
            self._seen[Path(target).name] = self._seen.pop(name)
            self.operations.append(Renamed(name, Path(target).name))

        def note_unlink(path: Path) -> None:
            self._look()
            unlink(path)
            del self._seen[Path(path).name]
            self.operations.append(Unlinked(Path(path).name))

        with (
            mock.patch("os.fsync", note_fsync),
            mock.patch("os.replace", note_replace),
            mock.patch("os.unlink", note_unlink),
        ):
            yield
        self._look()

    def _look(self) -> None:
        """Note what was written since the last look."""
        for path in sorted(self.folder.iterdir()):
            content = path.read_bytes()
            if self._seen.get(path.name) != content:
                self._seen[path.name] = content
                self.operations.append(Written(path.name, content))


@dataclass(slots=True, eq=False)
class File:
    """A file under all its names: its synced content, and the newer one, None = none is newer."""

    synced: bytes = b""
    written: bytes | None = None

    def after_a_crash(self, draw: random.Random) -> bytes:
        """Return what is left: of what wasn't synced all, nothing, or some pages."""
        if self.written is None:
            return self.synced
        fate = draw.choice(("all", "nothing", "pages"))
        if fate != "pages":
            return self.written if fate == "all" else self.synced
        length = draw.choice((len(self.written), draw.randint(0, len(self.written))))
        left = bytearray(length)
        for start in range(0, length, PAGE):
            page = slice(start, min(start + PAGE, length))
            held = (self.written if draw.random() < 0.5 else self.synced)[page]
            left[start : start + len(held)] = held
        return bytes(left)


def crash(operations: list[Operation], stop: int, draw: random.Random) -> dict[str, bytes]:
    """Return a folder's files by name after a crash that follows operation `stop` - 1."""
    names: dict[str, File] = {}  # as the running system sees them
    safe: dict[str, File] = {}  # as the folder on the disk does
    pending: list[dict[str, File | None]] = []  # changes of the folder that it doesn't have yet
    for operation in operations[:stop]:
        match operation:
            case Written(path, content):
                if path not in names:
                    names[path] = File()
                    pending.append({path: names[path]})
                names[path].written = content
            case Synced(""):
                safe, pending = dict(names), []
            case Synced(path):
                file = names[path]
                if file.written is not None:
                    file.synced, file.written = file.written, None
            case Renamed(source, target):
                names[target] = names.pop(source)
                pending.append({source: None, target: names[target]})
            case Unlinked(path):
                del names[path]
                pending.append({path: None})
    for change in pending:
        if draw.random() < 0.5:
            for name, held in change.items():
                if held is None:
                    safe.pop(name, None)
                else:
                    safe[name] = held
    return {name: file.after_a_crash(draw) for name, file in safe.items()}
