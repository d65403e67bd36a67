"""The frames of a stream that differ in their text alone: all else is encoded once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from heddle.server.wire import encode_text

SAMPLE: Final = "\0"  # no name of a model holds it, and a text's frames are not searched for it


@dataclass(frozen=True, slots=True)
class TextFrames:
    """What stands before and behind the text, in each frame."""

    before: bytes
    behind: bytes

    @classmethod
    def like(cls, frame_of: Callable[[str], bytes]) -> Self:
        """Return frames as `frame_of` makes them; it is asked for one."""
        before, _, behind = frame_of(SAMPLE).rpartition(encode_text(SAMPLE))
        return cls(before, behind)

    def frame(self, text: str) -> bytes:
        """Return the frame of a text."""
        return self.before + encode_text(text) + self.behind
