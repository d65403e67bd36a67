"""Weights in a file that is read once or mapped: safetensors whose tensors begin at cache lines."""

import json
import math
import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor

from heddle.core.files.file_memory import file_memory

LINE: Final = 64  # bytes of a cache line
LENGTH_BYTES: Final = 8  # in front of a safetensors header
UNFINISHED: Final = ".part"
DTYPES: Final = {"U8": torch.uint8, "F16": torch.float16, "F32": torch.float32}
NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


class Part(NamedTuple):
    """A tensor of a file, made when it is written: all of them together may not fit into memory.

    Its bytes are a multiple of `LINE`, but for those of the last parts.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    make: Callable[[], Tensor]

    @classmethod
    def of(cls, name: str, tensor: Tensor) -> "Part":
        """Return the part of a tensor that there is already."""
        return cls(name, tensor.dtype, tuple(tensor.shape), lambda: tensor)

    @property
    def size(self) -> int:
        """How long it is [bytes]."""
        return math.prod(self.shape) * self.dtype.itemsize


def write_weights(path: Path, parts: Iterable[Part]) -> None:
    """Write a file in one piece: readers see all of it, or none.

    One process at a time writes it; what others left half-written, as they were killed, is removed.

    Args:
        path: where; its folder exists.
        parts: those of which each fills cache lines come first, in any order here.
    Raises: OSError: there is no room for it.
    """
    ordered = sorted(parts, key=lambda part: part.size % LINE > 0)
    header: dict[str, object] = {}
    start = 0
    for part in ordered:
        offsets = [start, start + part.size]
        named = {"dtype": NAMES[part.dtype], "shape": part.shape, "data_offsets": offsets}
        header[part.name] = named
        start += part.size
    text = json.dumps(header).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % LINE)
    for left in path.parent.glob(f"{path.name}.*{UNFINISHED}"):  # as large as the weights
        left.unlink(missing_ok=True)
    passing = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with passing.open("wb") as file:
            file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
            for part in ordered:
                tensor = part.make().contiguous()
                assert tuple(tensor.shape) == part.shape, f"{part.name} has another shape"
                file.write(tensor.view(-1).view(torch.uint8).numpy().data)
        passing.replace(path)
    finally:
        passing.unlink(missing_ok=True)


def open_weights(path: Path) -> Mapping[str, Tensor] | None:
    """Return a file's tensors, without a copy of any.

    Up to `READ_BYTES_MAX` they are read into huge pages, where the system has those: decodes read
    them 1.5 times as fast there. A larger file is mapped: the system reads what is used, and
    processes share it. None: there is no such file, or it was cut short.
    """
    try:
        memory = file_memory(path)
    except (FileNotFoundError, ValueError):  # an empty file can't be mapped
        return None
    length = int.from_bytes(memory[:LENGTH_BYTES], "little")
    first = LENGTH_BYTES + length
    try:
        header = json.loads(memory[LENGTH_BYTES:first])
        return {
            name: _tensor(memory, first, **named)
            for name, named in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _tensor(
    memory: mmap.mmap, first: int, dtype: str, shape: list[int], data_offsets: list[int]
) -> Tensor:
    start, stop = data_offsets
    numbers = math.prod(shape)
    if (stop - start) != numbers * DTYPES[dtype].itemsize:
        raise ValueError(f"{shape} doesn't fill {stop - start} bytes")
    flat = torch.frombuffer(memory, dtype=DTYPES[dtype], count=numbers, offset=first + start)
    return flat.view(shape)
