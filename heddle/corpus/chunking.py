"""Cut documents into chunks that an embedding model reads whole and a prompt has room for.

A chunk is a slice of the text. Headings come first, then paragraphs that stay together while they
fit, then sentences, lines and words, each only where the coarser piece doesn't fit.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from heddle.core.errors import ConfigError
from heddle.core.sentences import sentence_ends
from heddle.corpus.document import Document
from heddle.corpus.sections import sections

WORD_CHARS_MAX = 200  # a longer "word" (base64, a URL, a script without spaces) is cut

# Chinese characters and kana stand for a word each: they are written without spaces.
_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|[^\s{_IDEOGRAPH}]{{1,{WORD_CHARS_MAX}}}")
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_LINE_END = re.compile(r"\n")


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of a document; `position` counts the document's chunks from 0.

    `text` is the document's text from `start` to `end`; `heading` are the headings above it, the
    outermost first, and `page` is the page on which it begins, None where there are no pages.
    """

    position: int
    title: str
    text: str
    start: int = 0
    end: int = 0
    page: int | None = None
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunking:
    """How long chunks are, and how many words each repeats of the one before it.

    Raises: ConfigError: a bound is too small to work with.
    """

    words_max: int = 120
    overlap_words: int = 0
    chars_max: int = 2000

    def __post_init__(self) -> None:
        if self.words_max < 1:
            raise ConfigError(f"words_max must be at least 1, not {self.words_max}")
        if not 0 <= self.overlap_words <= self.words_max // 2:
            raise ConfigError(
                f"overlap_words must be from 0 to half of words_max ({self.words_max // 2}),"
                f" not {self.overlap_words}"
            )
        if self.chars_max < 2 * WORD_CHARS_MAX:
            raise ConfigError(
                f"chars_max must be at least {2 * WORD_CHARS_MAX}, not {self.chars_max}"
            )

    @property
    def stamp(self) -> str:
        """The parameters in words, to compare and to show."""
        return (
            f"words_max={self.words_max} overlap_words={self.overlap_words}"
            f" chars_max={self.chars_max}"
        )


class Piece(NamedTuple):
    """Characters [start, end) of the text, with no space at either end, and their words."""

    start: int
    end: int
    words: int


def chunk_document(document: Document, chunking: Chunking) -> tuple[TextChunk, ...]:
    """Return a document's chunks, in its order; none if it has no text.

    Every character but white space is in a chunk, in order (Markdown headings: in the titles).
    A chunk has at most `words_max` words and `chars_max` characters, and ends inside a word only
    if that has more than `WORD_CHARS_MAX` characters. Equal documents give equal chunks.
    """
    cutter = _Cutter(document.text, chunking)
    found = (
        (section, piece)
        for section in sections(document)
        for piece in cutter.cut(section.start, section.end)
    )
    return tuple(
        TextChunk(
            position,
            section.title,
            document.text[piece.start : piece.end],
            piece.start,
            piece.end,
            document.page_at(piece.start),
            section.path,
        )
        for position, (section, piece) in enumerate(found)
    )


class _Cutter:
    """Cuts one text."""

    def __init__(self, text: str, chunking: Chunking) -> None:
        self.text = text
        self.chunking = chunking
        self.words_max = chunking.words_max - chunking.overlap_words

    def cut(self, start: int, end: int) -> list[Piece]:
        """Return the chunks of a section."""
        chunks: list[Piece] = []
        for span in self.spans(start, end, _paragraph_ends(self.text, start, end)):
            whole = self.measure(*span)
            parts = [whole] if whole else self.split(*span)
            # A paragraph joins the chunk before it if it fits whole; a long one also takes in a
            # short line that stands before it, which would be a poor chunk by itself.
            if chunks and (len(parts) == 1 or chunks[-1].words < self.words_max // 4):
                joined = _join(chunks[-1], parts[0])
                if self.fits(joined):
                    chunks.pop()
                    parts[0] = joined
            chunks.extend(parts)
        return self.with_overlap(chunks)

    def split(self, start: int, end: int) -> list[Piece]:
        """Cut a paragraph that is too long; the last two chunks get about equally long."""
        chunks: list[Piece] = []
        for piece in self.pieces(start, end):
            joined = _join(chunks[-1], piece) if chunks else piece
            if chunks and self.fits(joined):
                chunks[-1] = joined
            else:
                chunks.append(piece)
        return chunks[:-2] + self.balance(*chunks[-2:]) if len(chunks) > 1 else chunks

    def balance(self, left: Piece, right: Piece) -> list[Piece]:
        """Move the cut between two chunks to where they differ least."""
        pieces = list(self.pieces(left.start, right.end))
        words_left = list(accumulate(piece.words for piece in pieces))
        total = words_left[-1]
        for cut in sorted(range(len(pieces) - 1), key=lambda cut: abs(2 * words_left[cut] - total)):
            new_left = Piece(left.start, pieces[cut].end, words_left[cut])
            new_right = Piece(pieces[cut + 1].start, right.end, total - words_left[cut])
            if self.fits(new_left) and self.fits(new_right):
                return [new_left, new_right]
        return [left, right]

    def pieces(self, start: int, end: int, level: int = 0) -> Iterator[Piece]:
        """Give the largest pieces of a paragraph that fit: sentences, else lines, else words."""
        if level == len(_ENDS):
            for word in _WORD.finditer(self.text, start, end):
                yield Piece(*word.span(), 1)
            return
        for span in self.spans(start, end, _ENDS[level](self.text, start, end)):
            piece = self.measure(*span)
            if piece:
                yield piece
            else:
                yield from self.pieces(*span, level=level + 1)

    def spans(self, start: int, end: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Give what lies between the cuts, without the white space around it."""
        for cut in chain(cuts, (end,)):
            first, last = start, cut
            while first < last and self.text[first].isspace():
                first += 1
            while first < last and self.text[last - 1].isspace():
                last -= 1
            if first < last:
                yield first, last
            start = cut

    def measure(self, start: int, end: int) -> Piece | None:
        """Return the piece if it fits a chunk; a very long one is never counted."""
        if end - start > self.chunking.chars_max:
            return None
        piece = Piece(start, end, len(_WORD.findall(self.text, start, end)))
        return piece if self.fits(piece) else None

    def fits(self, piece: Piece) -> bool:
        """Whether a piece is within both bounds."""
        is_short = piece.end - piece.start <= self.chunking.chars_max
        return is_short and piece.words <= self.words_max

    def with_overlap(self, chunks: list[Piece]) -> list[Piece]:
        """Let each chunk begin with the last words of the one before it."""
        wanted = self.chunking.overlap_words
        if wanted == 0 or len(chunks) < 2:
            return chunks
        overlapped = chunks[:1]
        for before, chunk in pairwise(chunks):
            words = _WORD.finditer(self.text, before.start, before.end)
            earliest = chunk.end - self.chunking.chars_max
            starts = [word.start() for word in words][-wanted:]
            starts = [start for start in starts if start >= earliest]
            start = starts[0] if starts else chunk.start
            overlapped.append(Piece(start, chunk.end, chunk.words + len(starts)))
        return overlapped


def _join(left: Piece, right: Piece) -> Piece:
    return Piece(left.start, right.end, left.words + right.words)


def _paragraph_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _PARAGRAPH_END.finditer(text, start, end))


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _LINE_END.finditer(text, start, end))


_ENDS: tuple[Callable[[str, int, int], Iterator[int]], ...] = (
    sentence_ends,
    _line_ends,
)
