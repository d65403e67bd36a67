"""The lines of a stream of server-sent events, out of its text as it comes."""

from collections.abc import Iterator


class StreamLines:
    r"""Cuts a text into lines that end in LF or CRLF.

    `httpx.Response.iter_lines` also cuts at U+0085, U+2028 and U+2029, which JSON may hold as they
    are.
    """

    def __init__(self) -> None:
        self._rest: list[str] = []

    def feed(self, text: str) -> Iterator[str]:
        """Yield the lines that are complete, without their ends."""
        first, *lines = text.split("\n")
        self._rest.append(first)
        for line in lines:
            yield "".join(self._rest).removesuffix("\r")
            self._rest = [line]

    def close(self) -> Iterator[str]:
        """Yield the line that the end of the stream has ended."""
        yield from self.feed("\n")
