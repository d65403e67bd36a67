"""Which tiles a GPU takes, by the shared memory that it gives a block of threads: pure numbers."""

import math
from dataclasses import dataclass
from typing import Final

from heddle.core.errors import ConfigError
from heddle.engines.llm.attention.tiles import Tiling


@dataclass(frozen=True, slots=True)
class Gpu:
    """What decides which tiles a GPU takes.

    Args:
        shared_bytes: shared memory that a block of threads can have.
        generation: its major compute capability: 8 = Ampere and Ada, 9 = Hopper, 10 and 12 =
            Blackwell.
    """

    shared_bytes: int
    generation: int


@dataclass(frozen=True, slots=True)
class Tilings:
    """The tiles of a GPU.

    Args:
        small: of decodes and short rows, which leave most of a large tile empty.
        large: of long rows: large tiles read each key less often.
        large_shared: of long rows that see chunks in shared pages. A chunk is a few blocks of keys,
            and the loads of each begin anew.
        shared_bytes: shared memory that a block needs, of the GPUs with the least that take these
            tiles, with heads of 128.
        generation: the only one that takes these tiles; None = each.
    """

    small: Tiling
    large: Tiling
    large_shared: Tiling
    shared_bytes: int
    generation: int | None = None

    def fit(self, gpu: Gpu) -> bool:
        """Return whether a GPU can compute these tiles."""
        return self.shared_bytes <= gpu.shared_bytes and self.generation in (None, gpu.generation)


_SMALL, _LARGE = Tiling(16, 64, 4, 5), Tiling(128, 64, 8, 5)
_LARGE_FLOAT32: Final = Tiling(64, 16, 8, 5)
# By the bytes of a number, from the largest. Triton's compiler says what a tile needs: for 10.0 the
# first entry takes 235,552 bytes, more than the 227 KiB that such a GPU has, too. In float32 there
# are no matrix units that are exact.
TILINGS: Final = {
    2: (
        Tilings(_SMALL, Tiling(128, 128, 8, 5), _LARGE, 231_424, generation=9),
        Tilings(_SMALL, _LARGE, _LARGE, 99_328),
    ),
    4: (Tilings(Tiling(16, 32, 4, 5), _LARGE_FLOAT32, _LARGE_FLOAT32, 76_352),),
}


def tilings_for(gpu: Gpu | None, itemsize: int) -> Tilings:
    """Return the largest tiles that fit a GPU.

    Args:
        gpu: None = unknown, which takes the smallest tiles, as Triton's interpreter does.
        itemsize: bytes of a number of keys and values.

    Raises: ConfigError: the GPU has too little for any.
    """
    if problem := tiling_problem(gpu, itemsize):
        raise ConfigError(f"attention 'triton' can't run: {problem}; use attention torch")
    tilings = TILINGS[itemsize]
    if gpu is None:
        return tilings[-1]
    return next(one for one in tilings if one.fit(gpu))


def tiling_problem(gpu: Gpu | None, itemsize: int) -> str:
    """Return why no tiles fit a GPU, "" where some do. The arguments are those of `tilings_for`."""
    if gpu is None or any(one.fit(gpu) for one in TILINGS[itemsize]):
        return ""
    needed = TILINGS[itemsize][-1].shared_bytes
    return (
        f"this GPU gives a block of threads {gpu.shared_bytes >> 10} KiB of shared memory, "
        f"and the kernel takes {math.ceil(needed / 1024)} KiB"
    )
