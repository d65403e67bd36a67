"""Zip archives that hold a document: DOCX, PPTX, EPUB. Bombs are refused before they unpack."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from heddle.core.errors import HeddleError, InputError
from heddle.corpus.parsing.file_reading import read_whole
from heddle.corpus.parsing.limits import ParseLimits

ENCRYPTED_BIT: Final = 1
RATIO_FROM_BYTES: Final = 10 * 10**6  # what unpacks to less is harmless at any ratio
# How Word and PowerPoint save a file with a password: as an OLE container.
OLE_MARK: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read_archive(path: Path, limits: ParseLimits) -> bytes:
    """Return the bytes of an archive that is safe to unpack.

    The sizes that it declares are those that count: zipfile unpacks no byte more.

    Raises: InputError: it is missing, unreadable, too large, encrypted, no archive or a bomb.
    """
    content = read_whole(path, limits)
    if content.startswith(OLE_MARK):
        raise InputError(f"{path}: encrypted or of an old format; save it anew without a password")
    with unreadable_as_input_error(path), ZipFile(BytesIO(content)) as archive:
        entries = archive.infolist()
        if len(entries) > limits.archive_entries_max:
            raise InputError(
                f"{path}: {len(entries)} files in it, over the limit of"
                f" {limits.archive_entries_max}: it may be a zip bomb"
            )
        size = sum(entry.file_size for entry in entries)
        if size > limits.archive_bytes_max or (
            size > RATIO_FROM_BYTES and size > limits.archive_ratio_max * len(content)
        ):
            raise InputError(
                f"{path}: unpacks to {size / 1e6:.0f} MB, {size / max(1, len(content)):.0f} times"
                f" its size; the limits are {limits.archive_bytes_max / 1e6:.0f} MB and"
                f" {limits.archive_ratio_max} times: it may be a zip bomb"
            )
        if any(entry.flag_bits & ENCRYPTED_BIT for entry in entries):
            raise InputError(f"{path}: encrypted; save it without a password first")
    return content


@contextmanager
def unreadable_as_input_error(path: Path) -> Iterator[None]:
    """Turn every error of a parser of archives and XML on a damaged file into an InputError."""
    try:
        yield
    except HeddleError:
        raise
    except MemoryError:
        raise
    except BadZipFile as error:
        raise InputError(f"{path}: not a readable file of its format: {error}") from error
    except Exception as error:
        # On damaged files python-docx, python-pptx and zipfile raise errors of many types.
        reason = str(error) or type(error).__name__
        raise InputError(
            f"{path}: not a readable file of its format: {reason}; open and save it anew"
        ) from error


def missing_extra(path: Path, package: str) -> InputError:
    """Return the error for a format whose package is not installed."""
    return InputError(
        f"{path}: {path.suffix.lower()} files need {package}: pip install 'heddle[documents]'"
    )
