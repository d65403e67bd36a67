"""The results of parts, one file each; also all of them in one."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heddle.core.cache import read_json, write_json
from heddle.core.errors import InputError

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("heddle", "benchmarks")
RUNNING: Final = "running"
WHOLE: Final = "whole"
FAILED: Final = "failed"
CUT: Final = "cut"
LEFT: Final = "left"


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results; each is written in one piece, so a file is never torn."""

    folder: Path

    def path(self, part: str) -> Path:
        """Return where a part's result is."""
        return self.folder / f"{part}.json"

    def read(self, part: str) -> dict[str, Any]:
        """Return a part's result; an empty one where there is none."""
        found = read_json(self.path(part))
        return found if isinstance(found, dict) else {}

    def is_whole(self, part: str, kind: str) -> bool:
        """Whether a part has ended well at a place of this kind."""
        found = self.read(part)
        return found.get("state") == WHOLE and found.get("settings", {}).get("place") == kind

    def write(self, part: str, result: dict[str, Any]) -> None:
        """Write a part's result."""
        write_json(self.path(part), result)

    def pack(self, parts: Iterable[str], file: Path) -> None:
        """Write the results of all these parts into one file."""
        found = {part: self.read(part) for part in parts if self.path(part).is_file()}
        write_json(file, {"parts": found})

    def unpack(self, file: Path) -> list[str]:
        """Write the results of such a file into the folder; return their parts.

        Raises:
            InputError: it is no such file.
        """
        packed = read_json(file)
        if not isinstance(packed, dict) or not isinstance(packed.get("parts"), dict):
            raise InputError(f"{file} holds no results of a GPU day")
        for part, result in packed["parts"].items():
            self.write(part, result)
        return list(packed["parts"])


def source_digest() -> str:
    """Return what stands for the code that is measured, also where there is no git."""
    digest = hashlib.sha256()
    files = (file for folder in SOURCES for file in (ROOT / folder).rglob("*.py"))
    for file in sorted(files):
        digest.update(str(file.relative_to(ROOT)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
