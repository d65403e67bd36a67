"""The process that parses files: one after another, each within limits of memory and CPU time."""

import logging
import math
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from heddle.core.errors import InputError
from heddle.corpus.parsing.limits import ParseLimits
from heddle.corpus.parsing.parse_file import parse_file
from heddle.corpus.parsing.parser_messages import (
    LENGTH_BYTES,
    Message,
    document_fields,
    pack,
    unpack,
)

_STDOUT: Final = 1
_STDERR: Final = 2
_STATM: Final = Path("/proc/self/statm")
# A process whose memory has grown past this share of its limit ends, and a fresh one goes on.
WORN_SHARE: Final = 0.5


def main() -> None:
    """Parse the files that the parent names, until it names no more."""
    # What a library prints must not get between the messages.
    answers = os.fdopen(os.dup(_STDOUT), "wb")
    os.dup2(_STDERR, _STDOUT)
    logging.basicConfig(level=logging.INFO, handlers=[_Forwarding(answers)])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for request in _requests(sys.stdin.buffer):
        limits = ParseLimits(**request["limits"])
        _set_limits(limits)
        answer = _answer(Path(request["path"]), limits)
        is_last = _is_worn(limits) or "memory" in answer
        _send(answers, {**answer, "is_last": is_last})
        if is_last:
            return


class _Forwarding(logging.Handler):
    """Sends what is logged here to the parent, whose log it belongs to."""

    def __init__(self, answers: BinaryIO) -> None:
        super().__init__()
        self._answers = answers

    def emit(self, record: logging.LogRecord) -> None:
        log = [record.name, record.levelno, record.getMessage()]
        _send(self._answers, {"log": log})


def _requests(source: BinaryIO) -> Iterator[Message]:
    while length := source.read(LENGTH_BYTES):
        yield unpack(source.read(int.from_bytes(length, "big")))


def _answer(path: Path, limits: ParseLimits) -> Message:
    """Return the file's documents, or why there are none."""
    try:
        return {"documents": [document_fields(one) for one in parse_file(path, limits)]}
    except InputError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"memory": True}
    except Exception as error:
        # A bug of a parser is a matter of this file: the others are indexed all the same.
        return {"error": f"{path}: can't be read: {type(error).__name__}: {error}"}


def _set_limits(limits: ParseLimits) -> None:
    """Bound what the next file may take; the system ends a process that takes more CPU time."""
    cpu_s = math.ceil(time.process_time() + limits.cpu_s_max) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
    if sys.platform == "linux":  # elsewhere it is not kept to
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes_max,) * 2)


def _is_worn(limits: ParseLimits) -> bool:
    """Whether earlier files have left too little memory for the next one."""
    if not _STATM.exists():
        return False
    pages = int(_STATM.read_text().split()[0])
    return pages * resource.getpagesize() > WORN_SHARE * limits.memory_bytes_max


def _send(answers: BinaryIO, message: Message) -> None:
    answers.write(pack(message))
    answers.flush()
