"""What benchmarks share: where the data lies, and the cache of what was made from it."""

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heddle.cli.cache import cache_directory
from heddle.core.errors import InputError


def data_directory() -> Path:
    """Return the folder of the real data: $HEDDLE_DATA, else `../shared/data` of the checkout.

    Raises:
        InputError: it isn't there.
    """
    named = os.environ.get("HEDDLE_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise InputError(f"the data folder {folder} isn't there; set HEDDLE_DATA to where it is")
    return folder


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data file, such as "mini_corpus"."""
    path = data_directory() / f"{name}.jsonl.gz"
    if not path.is_file():
        raise InputError(f"the data file {path} isn't there")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def made_from(kind: str, ingredients: Mapping[str, object]) -> Path:
    """Return the cache folder of something, keyed by the hash of what it is made from."""
    digest = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()
    return cache_directory("bench", f"{kind}-{digest[:16]}")


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
