"""How long texts are: in words, or in the tokens of the model that embeds them.

A chunk is embedded under its title and behind the model's prompt, with the model's special tokens.
All of that is counted, so that a chunk which is within the model's length is embedded whole.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from tokenizers import Tokenizer

from heddle.core.errors import ConfigError
from heddle.core.passages import embedding_text

WORD_CHARS_MAX: Final = 200  # a longer "word" (base64, a URL, a script without spaces) is cut
BLOCK_CHARS: Final = 8_000  # tokenised at once; blocks end at the next white space
BLOCK_CHARS_MAX: Final = 16_000  # where there is none; tokenizers take 200 bytes for a character
BLOCKS: Final = 64  # of them, or of chunks, side by side

# Chinese characters and kana stand for a word each: they are written without spaces.
_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD: Final = re.compile(rf"[{_IDEOGRAPH}]|[^\s{_IDEOGRAPH}]{{1,{WORD_CHARS_MAX}}}")


class TextCounter(Protocol):
    """Counts texts in one unit."""

    @property
    def unit(self) -> str:
        """The unit, as it is shown and stored: "words", or whose tokens."""
        ...

    def starts(self, text: str) -> "array[int]":
        """Return the characters at which the units of a text begin, ascending."""
        ...

    def embedded(self, title: str, texts: Sequence[str]) -> list[int]:
        """Return the length of each text as it is embedded under a title."""
        ...


class WordCounter:
    """Counts words, and nothing around them: what is known without a model."""

    unit: Final = "words"

    def starts(self, text: str) -> "array[int]":
        """Return the characters at which the words of a text begin."""
        return array("q", (word.start() for word in WORD.finditer(text)))

    def embedded(self, title: str, texts: Sequence[str]) -> list[int]:
        """Return the words of each text."""
        return [len(WORD.findall(text)) for text in texts]


class TokenCounter:
    """Counts the tokens of an embedding model.

    Args:
        file: the model's tokenizer.json.
        model: the model's name.
        prompt: the words that the model wants before a passage.
        lower_case: whether the model reads small letters only.

    Raises: ConfigError: the file can't be read.
    """

    def __init__(self, file: Path, model: str, prompt: str = "", lower_case: bool = False) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # `tokenizers` raises a bare Exception for a malformed file
            raise ConfigError(f"{file} can't be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._model, self._prompt, self._lower_case = model, prompt, lower_case

    @property
    def unit(self) -> str:
        """Whose tokens they are."""
        return f"tokens of {self._model}"

    def starts(self, text: str) -> "array[int]":
        """Return the characters at which the tokens of a text begin.

        Tokens of one character begin at it together.
        """
        found: array[int] = array("q")
        if self._lower_case:
            text = _lower(text)
        blocks = list(_blocks(text))
        for first in range(0, len(blocks), BLOCKS):
            batch = blocks[first : first + BLOCKS]
            texts = [text[start:end] for start, end in batch]
            encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
            for (start, _), encoding in zip(batch, encoded, strict=True):
                found.extend(start + offset for offset, _ in encoding.offsets)
        return found

    def embedded(self, title: str, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text with title, prompt and special tokens."""
        lengths: list[int] = []
        for first in range(0, len(texts), BLOCKS):
            batch = texts[first : first + BLOCKS]
            whole = [self._prompt + embedding_text(title, text) for text in batch]
            if self._lower_case:
                whole = [text.lower() for text in whole]
            lengths += [len(one.ids) for one in self._tokenizer.encode_batch_fast(whole)]
        return lengths


def _lower(text: str) -> str:
    """Return a text in small letters that is as long: few letters have small forms of two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := one.lower()) == 1 else one for one in text)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Cut a text where white space follows `BLOCK_CHARS` characters, or else `BLOCK_CHARS_MAX`.

    Tokenizers read white space as a border, so that the tokens are those of the whole text. Where
    there is none they may differ at the cut: chunks are measured again as they are embedded.
    """
    start = 0
    while start < len(text):
        end = min(start + BLOCK_CHARS_MAX, len(text))
        border = _SPACE.search(text, start + BLOCK_CHARS, end)
        end = border.start() if border else end
        yield start, end
        start = end


_SPACE: Final = re.compile(r"\s")
WORDS: Final = WordCounter()
