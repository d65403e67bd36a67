"""What benchmarks share: where the data lies, and the cache of what was made from it."""

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heddle.core.cache import cache_directory
from heddle.core.instruction_sets import held
from heddle.evals.data_folder import data_file


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data file, such as "mini_corpus"."""
    with gzip.open(data_file(name), "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def made_from(kind: str, ingredients: Mapping[str, object], *, by_model: bool = False) -> Path:
    """Return the cache folder of computed data, keyed by the hash of its ingredients.

    Args:
        kind: the start of the folder's name.
        ingredients: everything that the content follows from.
        by_model: whether a model computes it, whose number type and rounding depend on the
            instructions: a process that is held to fewer of them has a folder of its own.
    """
    level = held()
    if by_model and level is not None:
        ingredients = {**ingredients, "held": level.name}
    digest = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()
    return cache_directory("bench", f"{kind}-{digest[:16]}")


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def array_digest(values: NDArray[np.generic]) -> str:
    """Return the sha256 of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(values)).hexdigest()
