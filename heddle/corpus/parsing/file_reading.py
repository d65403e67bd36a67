"""Read files, with errors that name the file and the fix."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from heddle.core.errors import HeddleError, InputError
from heddle.corpus.parsing.limits import ParseLimits

DAMAGED_GZIP: Final = (EOFError, zlib.error, gzip.BadGzipFile)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn the system's errors about this file into an InputError."""
    try:
        yield
    except HeddleError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory, not a file") from error
    except PermissionError as error:
        raise InputError(f"{path}: no permission to read it; change its mode or owner") from error
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from error


def read_whole(path: Path, limits: ParseLimits) -> bytes:
    """Return a file's bytes, decompressed where its name ends with .gz.

    Raises: InputError: it is missing, unreadable, damaged or too large.
    """
    with file_errors(path), open_plain(path) as file:
        # One byte more than allowed, not stat(): the file may grow meanwhile.
        try:
            content = file.read(limits.file_bytes_max + 1)
        except DAMAGED_GZIP as error:
            raise InputError(f"{path}: damaged gzip file: {error}") from error
        if len(content) > limits.file_bytes_max:
            limits.check_file(path, max(path.stat().st_size, len(content)))
    return content


def name_without_suffix(path: Path) -> str:
    """Return a file's name without its suffix, and without `.gz` behind that."""
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


def open_plain(path: Path) -> gzip.GzipFile | BufferedReader:
    """Open a file, which is decompressed where its name ends with .gz.

    Raises: OSError: as `Path.open`. Reading may raise DAMAGED_GZIP.
    """
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")
