"""Texts of which only the length counts: a word such as "c17*180" stands for 180 tokens."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from heddle.core.passages import Passage
from heddle.core.payloads import Segment
from heddle.core.prompts.chat_turns import BareText, ChatTurns
from heddle.core.system_text import PromptPart, SystemText

HEAD_ID: Final = 1
LINES_MAX: Final = 1024  # tokens of a line
FIRST_TAIL: Final = 2  # a tail says after how many tokens a line ends; the first one: never
FIRST_WRITTEN: Final = FIRST_TAIL + LINES_MAX
WRITTEN_MAX: Final = 4096  # tokens of one generation
FIRST_WORD: Final = FIRST_WRITTEN + LINES_MAX * WRITTEN_MAX
WORDS: Final = 1 << 24
LINES_MARK: Final = "lines:"


@lru_cache(maxsize=1 << 16)
def word_ids(word: str) -> tuple[int, ...]:
    """Return the token ids of a word: as many as it says, 1 where it says none."""
    _, _, count = word.partition("*")
    first = zlib.crc32(word.encode())
    return tuple(FIRST_WORD + (first + 7919 * n) % WORDS for n in range(int(count or 1)))


def token_count(text: str) -> int:
    """Return how many tokens a text has."""
    return sum(int(word.partition("*")[2] or 1) for word in text.split())


@dataclass(frozen=True, slots=True)
class CountingTokenizer:
    """A Tokenizer of such texts.

    A word "lines:5" is no token: the generation of that prompt ends a line after each 5 tokens.
    """

    context_tokens_max: int

    def encode_prompt(self, parts: Sequence[PromptPart]) -> tuple[Segment, ...]:
        """Return the segments of a prompt."""
        texts = [_text(part) for part in parts]
        every = next((found for text in texts if text and (found := _line_length(text))), 0)
        middle = (Segment(None if text is None else self.encode_slot(text)) for text in texts)
        return (Segment((HEAD_ID,)), *middle, Segment((FIRST_TAIL + every,)))

    def check_length(self, parts: Sequence[PromptPart]) -> None:
        """Do nothing: the engine refuses what is too long."""

    def encode_slot(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text."""
        words = (word for word in text.split() if not word.startswith(LINES_MARK))
        return tuple(token for word in words for token in word_ids(word))


def _text(part: PromptPart) -> str | None:
    if isinstance(part, SystemText | ChatTurns | BareText):
        return part.text
    return part.text if isinstance(part, Passage) else part


def _line_length(text: str) -> int:
    place = text.find(LINES_MARK)
    return 0 if place < 0 else int(text[place + len(LINES_MARK) :].split(maxsplit=1)[0])


def next_written(token_id: int) -> int:
    """Return the token that follows a prompt's tail or a written token."""
    if token_id < FIRST_WRITTEN:
        return FIRST_WRITTEN + (token_id - FIRST_TAIL) * WRITTEN_MAX
    return token_id + 1


def written_text(token_id: int) -> str:
    """Return the text of a written token: its number, or a line's end."""
    every, number = divmod(token_id - FIRST_WRITTEN, WRITTEN_MAX)
    return "\n" if every and (number + 1) % every == 0 else f"w{number} "


@dataclass(slots=True)
class WrittenStream:
    """The text of one generation."""

    def push(self, token_ids: Sequence[int]) -> tuple[str, bool]:
        """Return the tokens' text; there are no stop strings here."""
        return "".join(map(written_text, token_ids)), False

    def finish(self) -> str:
        """Return nothing: no text is held back."""
        return ""


class WrittenDecoder:
    """A TextDecoder of written tokens."""

    def stream(self, stop: tuple[str, ...]) -> WrittenStream:
        """Return a new stream."""
        return WrittenStream()
