"""Parsers of intricate formats in a process of their own: a hostile file costs itself alone."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from heddle.core.errors import InputError
from heddle.corpus.descriptors import is_readable
from heddle.corpus.document import Document
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import DEFAULT_LIMITS, is_intricate, parse_file
from heddle.corpus.parsing.parser_messages import (
    CHAR_BYTES_MAX,
    LENGTH_BYTES,
    REST_BYTES,
    Message,
    document_of,
    pack,
    unpack,
)

_BOOT: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from heddle.corpus.parsing.parser_main import main; main()"
)
_READ_BYTES: Final = 1 << 20
_END_S: Final = 5.0  # until a process that has nothing more to do is killed


class GuardedParser:
    """Gives the documents of files; intricate formats are parsed by another process.

    That process is started for the first such file and goes on with the next one. It has limits of
    memory and CPU time, and is killed when a file takes too long by the clock. Then that file is
    refused like any other that can't be used, and the next one gets a new process.

    Args:
        limits: what a file may take.
    """

    def __init__(self, limits: ParseLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Return itself; no process is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process, if there is one."""
        self.close()

    @property
    def pid(self) -> int | None:
        """The id of the process that parses; None = there is none."""
        return None if self._process is None else self._process.pid

    def documents(self, path: Path) -> Iterator[Document]:
        """Give a file's documents; one may have an empty text.

        Raises: InputError: the format is unknown, or the file can't be used or takes too much;
            names file and reason.
        """
        if not is_intricate(path):
            yield from parse_file(path, self._limits)
            return
        try:
            answer = self._ask(path)
        except BaseException:
            self._kill()  # it may still be at this file
            raise
        if answer["is_last"]:
            self.close()
        if "memory" in answer:
            raise InputError(
                f"{path}: takes more than {self._limits.memory_bytes_max / 1e9:g} GB of memory to "
                "read; split it"
            )
        if "error" in answer:
            raise InputError(answer["error"])
        for fields in answer["documents"]:
            yield document_of(fields)

    def close(self) -> None:
        """End the process; a later file starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        _close(process.stdin)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close(process.stdout)

    def _ask(self, path: Path) -> Message:
        """Have a file parsed, and return the answer."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _start()
        process = self._process
        assert process.stdin is not None, "the parser's process has no input"
        assert process.stdout is not None, "the parser's process has no output"
        until_s = time.monotonic() + self._limits.wall_s_max
        try:
            process.stdin.write(pack({"path": str(path), "limits": asdict(self._limits)}))
            process.stdin.flush()
            while True:
                message = self._receive(process.stdout, until_s)
                if "log" not in message:
                    return message
                name, level, text = message["log"]
                logging.getLogger(name).log(level, "%s", text)
        except TimeoutError:
            raise InputError(
                f"{path}: took more than {self._limits.wall_s_max:g} s to read, the limit for a "
                "file; split it"
            ) from None
        except (EOFError, BrokenPipeError, ValueError):
            raise InputError(f"{path}: {self._death(process)}") from None

    def _receive(self, source: IO[bytes], until_s: float) -> Message:
        """Return the next message.

        Raises:
            TimeoutError: it has not come by `until_s`.
            EOFError, ValueError: the process has ended, or its bytes are no message.
        """
        length = int.from_bytes(_read(source, LENGTH_BYTES, until_s), "big")
        if length > CHAR_BYTES_MAX * self._limits.text_chars_max + REST_BYTES:
            raise ValueError(f"a message of {length} bytes is too long")
        return unpack(_read(source, length, until_s))

    def _death(self, process: subprocess.Popen[bytes]) -> str:
        """Return how a process that parses has ended, and what to do about its file."""
        process.kill()
        code = -process.wait()
        if code == signal.SIGXCPU:
            cpu_s = self._limits.cpu_s_max
            return f"took more than {cpu_s:g} CPU seconds to read, the limit for a file; split it"
        name = signal.Signals(code).name if code > 0 else f"exit code {-code}"
        return f"its parser broke down ({name}): the file may be damaged; open and save it anew"

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self.close()


def _start() -> subprocess.Popen[bytes]:
    """Start a process that finds the same modules as this one. Ctrl-C is its parent's business."""
    search_path = [str(Path(entry).absolute()) for entry in sys.path]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, *search_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )


def _read(source: IO[bytes], count: int, until_s: float) -> bytes:
    """Return the next `count` bytes of a pipe."""
    content = bytearray()
    while len(content) < count:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not is_readable(source.fileno(), wait_s=left_s):
            raise TimeoutError
        piece = os.read(source.fileno(), min(_READ_BYTES, count - len(content)))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError):
            stream.close()
