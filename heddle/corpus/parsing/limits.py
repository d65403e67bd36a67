"""How large a file may be before it is refused."""

from dataclasses import dataclass
from pathlib import Path

from heddle.core.errors import InputError


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Bounds on what is read.

    `file_bytes_max` holds for formats that are read whole; JSONL is streamed, so it has a bound
    on a line and one on everything, after decompression, which stops a compressed bomb.
    """

    file_bytes_max: int = 200 * 10**6
    line_bytes_max: int = 20 * 10**6
    stream_bytes_max: int = 20 * 10**9

    def check_file(self, path: Path, size: int) -> None:
        """Refuse a file that is too large.

        Raises: InputError: it has more than `file_bytes_max` bytes.
        """
        if size > self.file_bytes_max:
            raise InputError(
                f"{path}: {size / 1e6:.0f} MB, over the limit of {self.file_bytes_max / 1e6:.0f} MB"
                " a file; split it, or turn it into JSONL, which has no such limit"
            )
