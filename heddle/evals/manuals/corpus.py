"""The manuals as a folder of files, made once for what an installation carries."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heddle.core.cache import cache_directory
from heddle.evals.manuals.page import ManualPage

_WHOLE: Final = ".whole"  # written last: a folder without it was left half-made


def pages_folder(pages: Sequence[ManualPage]) -> Path:
    """Return the folder with these pages as files, below the cache; `heddle index` reads it.

    The folder is named after the pages' digest, so other documentation has another folder.
    Mutates: writes the files where they aren't there yet.
    """
    folder = cache_directory("manuals", pages_digest(pages)) / "pages"
    mark = folder.with_name(_WHOLE)
    if not mark.exists():
        folder.mkdir(exist_ok=True)
        for page in pages:
            (folder / page.name).write_text(page.text, encoding="utf-8")
        mark.touch()
    return folder


def pages_digest(pages: Sequence[ManualPage]) -> str:
    """Return 16 digits that stand for the pages' names and texts, in any order."""
    digest = hashlib.sha256()
    for page in sorted(pages, key=lambda page: page.name):
        for part in (page.name, page.text):
            content = part.encode()
            digest.update(len(content).to_bytes(8))
            digest.update(content)
    return digest.hexdigest()[:16]
