"""How large a file may be before it is refused."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heddle.core.errors import InputError


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Bounds on what is read.

    Args:
        file_bytes_max: holds for formats that are read whole.
        line_bytes_max, stream_bytes_max, lines_max: of JSONL, which is streamed: of a line, and of
            everything after decompression, which stops a compressed bomb.
        page_chars_max: larger HTML pages are read with their furniture.
        pages_max: of a PDF.
        text_chars_max: of what stands in a document, in a PDF on its pages.
        cpu_s_max, wall_s_max, memory_bytes_max: what reading one file of an intricate format may
            take: CPU time and time by the clock [s], and memory, on Linux. A busy machine gives a
            process a part of the time only, so the clock's limit is the wider one.
        archive_entries_max, archive_bytes_max, archive_ratio_max: of DOCX, PPTX and EPUB, which are
            zip archives: their files, those files' bytes when unpacked, and how many times as large
            as the archive that is.
        rows_max: of a CSV file.
    """

    file_bytes_max: int = 200 * 10**6
    line_bytes_max: int = 20 * 10**6
    stream_bytes_max: int = 20 * 10**9
    lines_max: int = 10**9
    page_chars_max: int = 20 * 10**6
    pages_max: int = 20_000
    text_chars_max: int = 100 * 10**6
    cpu_s_max: float = 120.0
    wall_s_max: float = 300.0
    memory_bytes_max: int = 4 * 10**9
    archive_entries_max: int = 10_000
    archive_bytes_max: int = 500 * 10**6
    archive_ratio_max: int = 200
    rows_max: int = 1_000_000

    def check_file(self, path: Path, size: int) -> None:
        """Refuse a file that is too large.

        Raises: InputError: it has more than `file_bytes_max` bytes.
        """
        if size > self.file_bytes_max:
            raise InputError(
                f"{path}: {size / 1e6:.0f} MB, over the limit of {self.file_bytes_max / 1e6:.0f} MB"
                " a file; split it, or turn it into JSONL, which has no such limit"
            )

    def check_text(self, path: Path, chars: int) -> None:
        """Refuse a document with too much text in it.

        Raises: InputError: it has more than `text_chars_max` characters.
        """
        if chars > self.text_chars_max:
            raise InputError(
                f"{path}: over the limit of {self.text_chars_max / 1e6:.0f} million characters"
                " a document; split it"
            )


SENT_LIMITS: Final = ParseLimits(stream_bytes_max=200 * 10**6, lines_max=10**6)
"""Of a file that a client sends: a server reads it beside its requests, and others wait for it."""
