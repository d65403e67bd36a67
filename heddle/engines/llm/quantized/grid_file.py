"""The file in a model's directory that says which grid its weights come from. (ADR 47)

What brings such a model in writes it: numbers that were rounded once are not rounded again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

GRID_FILE: Final = "weights.grid"  # safetensors; another ending, so that it isn't taken for weights
CODES: Final = ".codes"  # behind a layer's name
SCALES: Final = ".scales"
LOWS: Final = ".lows"


class GridArrays(NamedTuple):
    """Weights `codes * scales + lows`, with a scale and a low for each 32 inputs of an output.

    Shapes: codes [out, in] uint8; scales and lows [out, in / 32] float16.
    """

    codes: NDArray[np.uint8]
    scales: NDArray[np.float16]
    lows: NDArray[np.float16]


def write_grid_file(directory: Path, grids: Mapping[str, GridArrays]) -> None:
    """Write a model's grids, by the names of its layers, in one piece.

    Raises: OSError: there is no room.
    """
    from safetensors.numpy import save_file

    tensors: dict[str, NDArray[np.generic]] = {}
    for name, grid in grids.items():
        parts = zip((CODES, SCALES, LOWS), grid, strict=True)
        tensors |= {name + part: np.ascontiguousarray(array) for part, array in parts}
    passing = directory / f"{GRID_FILE}.part"
    save_file(tensors, passing)
    passing.replace(directory / GRID_FILE)
