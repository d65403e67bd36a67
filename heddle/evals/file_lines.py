"""The lines of a data file, plain or gzipped, and how much of it is read at most."""

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError

# Of a file, decompressed. All of HotpotQA and MS MARCO's dev part fit; a compressed bomb does not.
FILE_BYTES_MAX: Final = 1 << 30


def file_lines(path: Path, bytes_max: int = FILE_BYTES_MAX) -> Iterator[tuple[int, bytes]]:
    """Give a file's lines with their numbers, from 1.

    Raises:
        InputError: the file can't be read, is damaged, or holds more than `bytes_max` bytes.
    """
    number = 0
    left = bytes_max
    try:
        with _open(path) as file:
            while line := file.readline(left + 1):
                number += 1
                left -= len(line)
                if left < 0:
                    raise InputError(
                        f"{path}, line {number}: over the limit of {bytes_max / 2**30:g} GiB a "
                        "data file; evaluate a part of it, such as its first lines (head -n 1000)"
                    )
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}, after line {number}: damaged gzip file: {error}") from error
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
