"""Server-sent events out of bytes, as far as APIs of models use them: the `data` of each."""

from collections.abc import Iterator
from typing import Final

from heddle.engines.remote.problem import RemoteProblem, Trouble

EVENT_BYTES_MAX: Final = 1 << 20


class EventReader:
    """Cuts a stream into events.

    An event ends with an empty line; its `data` lines are joined. Comments, other fields and
    events without data are skipped. Lines may end in LF or CRLF.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of each event that is complete.

        Raises:
            RemoteProblem: an event has no end in sight.
        """
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].lstrip(b" "))
            elif not line and self._data:
                event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                self._data = []
                if event:  # else it is none: servers keep connections alive so
                    yield event
        self._check_size()

    def close(self) -> Iterator[bytes]:
        """Yield the data of an event that the end of the stream has ended."""
        yield from self.feed(b"\n\n")

    def _check_size(self) -> None:
        if len(self._rest) + sum(map(len, self._data)) > EVENT_BYTES_MAX:
            self._rest, self._data = b"", []
            raise RemoteProblem(
                Trouble.GARBAGE, f"sent an event of more than {EVENT_BYTES_MAX >> 10:,} KiB"
            )
